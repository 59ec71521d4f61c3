"""What other rooms may use of this one, a line each."""

from . import long_work as long_work  # heartbeats and progress of long work
from .archives import ArchiveLimits as ArchiveLimits  # How much an archive may hold, counted while it is unpacked
from .archives import ArchiveNames as ArchiveNames  # The names of an archive so far
from .archives import archive_error as archive_error  # The error for an archive that breaks a rule
from .archives import extract_archive as extract_archive  # Unpack a zip or a tar (plain, gzip, bzip2 or xz) into a …
from .archives import extract_zip as extract_zip  # As `extract_archive`, of zips alone
from .archives import printable_name as printable_name  # A name out of an archive, short and without letters that a …
from .batches import Episode as Episode  # A training task
from .batches import ImageTask as ImageTask  # One task as images, preprocessed for the network and on its device
from .batches import PROTOTYPE_SCALES as PROTOTYPE_SCALES  # distance → the scale of its scores unless another is …
from .batches import TaskBatch as TaskBatch  # B tasks as padded tensors on one device
from .batches import TaskShape as TaskShape  # Sizes after padding of one task in a batch
from .batches import prototype_scores as prototype_scores  # Scores of queries against class vectors
from .batches import prototypes as prototypes  # Mean vector of each class
from .calls import Called as Called  # Something made by a call such as `tim(steps=100)`
from .settings import Tuned as Tuned  # Calls and settings
from .calls import call_defaults as call_defaults  # The keyword settings of a callable with their defaults, in the …
from .calls import check_choice as check_choice  # `value` must be one of `choices`
from .calls import check_count as check_count  # `value` must be a whole number of at least `least`
from .calls import check_declared as check_declared  # Check every field as it is declared
from .calls import check_number as check_number  # `value` must be a number above `above` (where given), else at …
from .calls import check_settings as check_settings  # UserError naming the first unknown setting and listing the …
from .calls import choice_field as choice_field  # A field that `check_choice` checks
from .calls import count_field as count_field  # A field that `check_count` checks
from .calls import find_class as find_class  # The class that `table` (name → module:class) holds under `name`
from .calls import format_call as format_call  # The canonical text of a call
from .settings import is_tuned as is_tuned  # Whether a name on the command line is such a file
from .calls import make_called as make_called  # `chosen(**settings)`
from .calls import number_field as number_field  # A field that `check_number` checks
from .calls import parse_call as parse_call  # Split `name(key=literal, …)` into its name and settings
from .settings import read_tuned as read_tuned  # Read such a file
from .settings import tuned_method as tuned_method  # The method's call in the file
from .settings import tuned_training as tuned_training  # The algorithm's call in the file and the settings of training
from .calls import quote_words as quote_words  # Quotes around bare words and paths after an equals sign
from .calls import with_settings as with_settings  # Give a class with a `name` a constructor that takes its fields …
from .settings import write_tuned as write_tuned  # Write the file, whole or not at all
from .commands import COUNT as COUNT
from .commands import FILE as FILE
from .commands import FILE_PLACE as FILE_PLACE
from .commands import FOLDER as FOLDER
from .commands import Grouped as Grouped
from .commands import GroupedCommand as GroupedCommand
from .commands import PATH as PATH
from .commands import PLACE as PLACE  # a file or folder that may be elsewhere
from .commands import PlaceType as PlaceType
from .commands import dry_run_option as dry_run_option
from .commands import echo_json as echo_json  # Print `value` as JSON that people can read
from .commands import force_option as force_option
from .commands import json_option as json_option
from .commands import print_estimate as print_estimate  # What work would take, step by step and in all
from .commands import print_rich as print_rich
from .commands import escape_markdown as escape_markdown  # Text that Markdown shows as it is
from .commands import fit_table as fit_table  # A table of at most 80 columns as text
from .commands import html_facts as html_facts  # Named texts as an HTML table, for notebooks
from .commands import html_table as html_table  # Rows as an HTML table, for notebooks
from .commands import print_table as print_table  # Print rows (all with the same keys) as a terminal table, or as one …
from .commands import print_written as print_written  # Where a page or picture lies now, and its size where it is here
from .commands import Estimate as Estimate  # The steps of a piece of work, each with its `seconds` and `bytes` …
from .engines import out_of_memory as out_of_memory  # Whether an exception says that memory ran out, on a device or …
from .engines import usable_cores as usable_cores  # Cores that this process may run on
from .engines import pick_device as pick_device  # The device called `name` (also `cuda:1`)
from .engines import AUTOMATIC as AUTOMATIC  # what auto means on a CPU
from .engines import ENGINES as ENGINES  # every name that `engine` takes
from .engines import EngineChoice as EngineChoice  # What was asked for: an engine and, for PyTorch, how it computes
from .engines import RUNTIMES as RUNTIMES  # engines that take networks which PyTorch exported, on a CPU
from .engines import engine_names as engine_names  # every engine with its version
from .engines import engine_version as engine_version  # An engine with its version, as it stands in the identity of …
from .engines import missing_modules as missing_modules  # the modules that an engine needs and that are not installed
from .engines import parse_engine as parse_engine  # What `engine` says
from .engines import require_engine as require_engine  # An error with the pip command where an engine's module is …
from .engines import using_engine as using_engine  # let an engine hold for every backbone that is opened inside …
from .engines import with_engine as with_engine  # let the parameter `engine` of a verb hold for all that it opens …
from .errors import Face as Face  # How one face of Longshot writes parameters and calls
from .errors import PythonFace as PythonFace  # words a mistake as Python does
from .errors import UserError as UserError  # A mistake in the input, told in one sentence
from .errors import count as count  # A number with its noun
from .errors import first as first  # The first `shown_location` of a list, each between quotes, and how many more …
from .errors import in_bytes as in_bytes  # Word a size for people
from .errors import in_words as in_words  # `template` as the face that is spoken now writes it
from .errors import note as note  # Print something that the user should know and that stops nothing, on standard …
from .errors import render as render  # a template in the words of a face
from .errors import span as span  # The range of a number, with at most one decimal
from .errors import speak_as as speak_as  # Let sentences and notes mention parameters and calls as `face` writes them
from .files import LockBusy as LockBusy  # Another process holds the lock
from .files import atomic as atomic  # Yield a temporary path that takes the place of `path` when the block ends well
from .files import remove_at_exit as remove_at_exit  # Delete a folder when this process ends
from .files import cache_dir as cache_dir  # A folder of the cache to write into
from .files import cache_places as cache_places  # Where the cache is read from, in order
from .files import canonical_json as canonical_json  # JSON with sorted keys and no white space
from .files import explain_disk_errors as explain_disk_errors  # Turn a full disk or a read-only place into one …
from .files import explain_long_names as explain_long_names  # Turn a name or path that is longer than the system …
from .files import file_lock as file_lock  # Hold the lock file `path` while the block runs
from .files import find_cached as find_cached  # The first place of the cache that has this file or folder
from .files import hash_file as hash_file  # Hex SHA-256 of a file's bytes, read in blocks
from .files import hash_json as hash_json  # Hex SHA-256 of `value`'s canonical JSON
from .files import hash_text as hash_text  # Hex SHA-256 over the parts, each preceded by its length
from .files import is_locked as is_locked  # Whether a living process holds this lock file
from .files import is_writable as is_writable  # Whether files can be made in a folder, which is created where it is …
from .files import json_text as json_text  # `value` as readable JSON, as `write_json` writes it
from .files import keep_fonts as keep_fonts  # Let matplotlib keep its list of fonts in the cache, not in the user's …
from .files import lend_temporary as lend_temporary  # Where nothing can be written but `out`, let temporary files …
from .files import own_cache as own_cache  # The place of the cache that is written to, or the first where none can be
from .files import read_parquet as read_parquet  # The table in one file or open buffer
from .files import read_sealed as read_sealed  # The bytes that `write_sealed` wrote
from .files import write_json as write_json  # Write `value` as readable JSON, whole or not at all
from .files import write_sealed as write_sealed  # Write bytes behind a checksum of themselves, whole or not at all …
from .files import write_text as write_text  # Write `text` as UTF-8, whole or not at all
from .long_work import HEARTBEAT_FILE as HEARTBEAT_FILE
from .long_work import Heartbeat as Heartbeat  # The last heartbeat of a folder
from .long_work import Progress as Progress  # Counts finished units
from .long_work import heartbeat as heartbeat  # Beat in `folder` while the block runs
from .long_work import progress as progress  # Show progress on stderr while the block runs
from .long_work import read_heartbeat as read_heartbeat  # The last heartbeat in `folder`
from .outputs import OutputKind as OutputKind  # A kind of file that a verb writes
from .outputs import PAGE as PAGE
from .outputs import PICTURE as PICTURE
from .outputs import claim_folder as claim_folder  # UserError unless `out` is a new folder, an empty one, or one …
from .outputs import claim_output as claim_output  # UserError unless a file of `kind` may be written to `out`
from .outputs import deliver_json as deliver_json  # Write `value` as readable JSON to where a user wants it
from .outputs import deliver_text as deliver_text  # Write `text` as UTF-8 to where a user wants it
from .outputs import delivered as delivered  # Yield a temporary path whose file goes to `out` when the block ends …
from .outputs import has_columns as has_columns  # Evidence
from .outputs import has_json as has_json  # Evidence
from .outputs import has_parquet as has_parquet  # Evidence
from .outputs import is_never_own as is_never_own  # Evidence
from .outputs import is_page as is_page  # Evidence
from .outputs import is_screen as is_screen  # Whether `out` is standard output
from .outputs import is_stream as is_stream  # Whether `out` is written to and never replaced
from .outputs import picture_stamp as picture_stamp  # Metadata for matplotlib's `savefig`
from .outputs import screen_for_output as screen_for_output  # Let the screen have what is written to `-` and …
from .outputs import starts_with as starts_with  # Evidence
from .plugins import Plugin as Plugin  # what a package adds to Longshot, named by an entry point
from .plugins import absent_plugins as absent_plugins  # plugins that are named and cannot be imported, with the …
from .plugins import list_plugins as list_plugins  # the plugins that are installed
from .plugins import load_target as load_target  # import what "module:attribute" names
from .plugins import plugged as plugged  # all that plugins add of one kind: name → target
from .preprocess import LARGEST_SIDE as LARGEST_SIDE  # a side beyond this is a slip of the pen, and would ask for …
from .preprocess import PREPROCESSING_RULES as PREPROCESSING_RULES  # rounded before
from .preprocess import Preprocessing as Preprocessing  # A parsed string
from .preprocess import parse_preprocessing as parse_preprocessing  # Parse a preprocessing string
from .preprocess import rescale_preprocessing as rescale_preprocessing  # The same preprocessing for images of …
from .remote import check_writable as check_writable  # UserError at once, not after an hour of work, where nothing …
from .remote import lasting_work_folder as lasting_work_folder  # As `work_folder`, until this process ends
from .remote import put_file as put_file  # Put a file at `url`
from .remote import remove_file as remove_file  # Delete the file at `url`, if there is one
from .remote import work_folder as work_folder  # A folder in the cache for files on their way to a URL
from .remote_cache import add_missing as add_missing  # Bring the files that lie at `url` and not in `folder`
from .remote_cache import is_cached as is_cached  # Whether there is a local copy of what lies, or lay, at `url`
from .remote_cache import link_files as link_files  # The files of one folder in another, in place of those that are …
from .urls import local_copy as local_copy  # The path of a file or folder on this machine
from .urls import opened_copy as opened_copy  # `local_copy` for a block that reads it
from .remote_cache import remote_entries as remote_entries  # One entry per URL in the folder `remote` of a cache
from .executor import close_executors as close_executors  # Leave every cluster that was joined
from .executor import current_choice as current_choice  # What holds now
from .executor import executor as executor  # What computes now
from .executor import parse_on as parse_on  # `on` in one spelling
from .executor import release_executors as release_executors  # Let go of all workers that wait for more to do …
from .executor import using_executor as using_executor  # Let an executor hold for all work inside the block
from .executor import with_executor as with_executor  # Let the parameters `on`, `gpus_per_worker` and …
from .cluster import compare_machines as compare_machines  # What would change bytes on the other machine, in …
from .cluster import join_cluster as join_cluster  # Join the cluster that `on` names (`ray`
from .executor import Crew as Crew  # Workers that all hold the same
from .executor import Executor as Executor  # Where work runs
from .executor import FailureList as FailureList  # The units of a folder that failed for good
from .executor import Mapped as Mapped  # The pairs (key, result) of mapped work
from .executor import Threads as Threads  # This machine
from .executor import Tick as Tick  # a worker calls it after every n items
from .executor import UnitsFailed as UnitsFailed  # Some units failed on every try
from .cluster_nodes import living_nodes as living_nodes  # Node id → what Ray says of it, of the nodes that are alive
from .cluster_nodes import node_facts as node_facts  # Versions, source, processor and cache of this machine, and what …
from .cluster_nodes import node_name as node_name  # How people call a node
from .settings import LooseRecord as LooseRecord  # A record whose file may hold more than is read here, as files of …
from .settings import Record as Record  # Named values with types
from .settings import nearest_name as nearest_name  # "did you mean 'x'?" where a name is near, else all of them …
from .settings import read_json as read_json  # The JSON file at `path` as `model`
from .settings import read_parameters as read_parameters  # The parameters of `function` as `model`
from .settings import read_record as read_record  # `values` as `model`
from .settings import read_sidecar as read_sidecar  # The values of the JSON file at `path`, in the order of the file
from .startup import show_noun as show_noun  # What the viewer makes of a testbed, one of its tasks, or results
from .startup import SWITCHES as SWITCHES  # variables that keep libraries from telling their makers anything
from .startup import show_with as show_with  # Let `viewer(noun, task)` show testbeds and results from now on
from .startup import switch_off as switch_off  # Set every switch that the user has not set, and keep OpenVINO's …
from .startup import switched_on as switched_on  # The variables by which the user has switched something on …
from .tasks import Bools as Bools  # masks
from .tasks import Floats as Floats  # measured numbers
from .tasks import Ints as Ints  # row numbers, class numbers, counts, offsets
from .tasks import Ragged as Ragged  # T rows of unequal length
from .tasks import TaskPlan as TaskPlan  # T tasks before their images are chosen
from .tasks import TaskRows as TaskRows  # T tasks of one dataset, as integers only
from .tasks import offsets_of as offsets_of  # Where rows of the given lengths [T] start and end when laid one …
from .tasks import renumbered as renumbered  # Tasks whose rows are places among some rows
from .tasks import used_rows as used_rows  # The rows that some tasks use, each once, ascending
from .tasks import rows_of_classes as rows_of_classes  # All rows of some classes, class by class, where class c is …
from .tasks import same_shape as same_shape  # Positions of tasks with equal ways, support and query, in groups
from .tasks import task_seeds as task_seeds  # [T] one seed per task number in 0 … 2⁶³−1
from .urls import Location as Location  # a path here, or a URL as text
from .urls import is_url as is_url  # Whether a place is an address rather than a path on this machine
from .urls import shown_location as shown_location  # A place for sentences, records and provenance
from .urls import url_beside as url_beside  # The address of a file beside the one at `url`
from .urls import url_inside as url_inside  # The address of a file in the folder at `url`
from .plugins import Declared as Declared  # a class with a name, as its source has it
from .plugins import declared_classes as declared_classes  # the classes of a folder that say their name
from .verb_options import verb_options as verb_options  # options of a command from a verb's signature and docstring
from .verb_options import VerbOption as VerbOption  # an option that was made from a parameter
from .verb_options import verb_parameters as verb_parameters  # the parameters of a verb as its source describes them
