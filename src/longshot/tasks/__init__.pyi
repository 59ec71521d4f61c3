"""What other rooms may use of this one, a line each."""

from . import columns as columns  # The columns of a testbed
from . import describe as describe  # A testbed in numbers, as histograms in a terminal, and checked against its …
from .base import Classes as Classes  # Which classes
from .base import Instances as Instances  # Which images
from .base import Pool as Pool  # What may be drawn
from .base import settings_of as settings_of  # A choice as JSON for the metadata
from .base import Shape as Shape  # How many classes, shots and queries
from .big_episode import BigEpisode as BigEpisode  # How a dataset becomes a task
from .big_episode import shuffled_splits as shuffled_splits  # The dataset with `split` and `position` drawn from a …
from .big_episode import split_rows as split_rows  # Rows of train, validation and test, each in the order of …
from .big_episode import with_splits as with_splits  # A dataset with train, validation and test images, cut as VTAB …
from .class_samplers import CoarsityClasses as CoarsityClasses  # Tasks whose coarsity lies between `low` and `high` …
from .class_samplers import draw_within as draw_within  # Draw the ways from the shape, then that many classes …
from .class_samplers import SemanticClasses as SemanticClasses  # Classes close in meaning, every class about equally …
from .class_samplers import SiblingClasses as SiblingClasses  # All classes of a task belong to one super-class
from .class_samplers import UniformClasses as UniformClasses  # Every set of classes is equally likely
from .columns import checksum as checksum  # Hex SHA-256 over `facts` and every column's name, type and values
from .columns import dictionary as dictionary  # The distinct strings that a string column or a column of string …
from .columns import of_dataset as of_dataset  # Which tasks are of a dataset
from .columns import places_among as places_among  # Where each string of a column's dictionary stands among names
from .columns import ragged as ragged  # A list column as flat numbers
from .columns import STANDARD as STANDARD  # The columns that every testbed has, and their types
from .columns import Task as Task  # One few-shot task
from .binding import bound_here as bound_here  # The testbed with the names that its images have on this machine
from .binding import find_dataset as find_dataset  # A dataset of the testbed as this machine remembers it
from .binding import open_datasets as open_datasets  # The testbed bound to its datasets, and these by name
from .binding import rebind as rebind  # The testbed with its images called as they are in a dataset
from .content import ContentEntry as ContentEntry  # What the metadata of a testbed says about the images of one …
from .content import ImageContent as ImageContent  # The images that a testbed uses of one dataset
from .content import names_only as names_only  # Of images whose bytes were not looked at
from .content import pack as pack  # All digests as text
from .content import read_images as read_images  # What some images are made of now
from .content import say_changed as say_changed  # `2 of the 300 images of 'birds' that the testbed uses are not …
from .content import say_identity as say_identity  # In words what the metadata of a testbed says under `content`
from .content import full_content as full_content  # The content of images with these digests [M, 64]
from .content import unpack as unpack  # What `entry` and `pack` wrote
from .describe import Balance as Balance  # How often the classes of one dataset occur, beside drawing each class …
from .describe import bars as bars  # Counts of the values
from .describe import bin_edges as bin_edges  # Edges [B + 1] of equally wide intervals that hold all values
from .describe import Change as Change  # A measure of the same tasks before and after selection, where both are known
from .describe import straddling_tasks as straddling_tasks  # How many tasks have copies on both sides or in two …
from .describe import dropped_classes as dropped_classes  # Classes that were left out of the draw for having too …
from .describe import summary as summary  # The facts of a testbed as plain JSON values
from .difficult import DifficultInstances as DifficultInstances  # Supports on which the query loss is high
from .difficult import EasyInstances as EasyInstances  # Supports on which the query loss is low
from .difficult import GreedyInstances as GreedyInstances  # Greedy search of Agarwal et al
from .drawing import estimate_sample as estimate_sample  # Draw a few tasks, without looking at features, and …
from .instance_samplers import draw_queries as draw_queries  # Query images as every sampler of one seed draws them
from .instance_samplers import MatchedInstances as MatchedInstances  # The support is like the query
from .instance_samplers import objects_attribute as objects_attribute  # The attribute that counts the objects of an …
from .instance_samplers import rule_set as rule_set  # The cases of a named rule set in the words of this dataset's …
from .instance_samplers import RULE_SETS as RULE_SETS  # The named rule sets of shifted and matched tasks
from .instance_samplers import ShiftedInstances as ShiftedInstances  # The support differs from the query as the rule …
from .instance_samplers import skip_past as skip_past  # Positions among what is left as positions in the whole
from .instance_samplers import slots_to_rows as slots_to_rows  # Positions inside classes as rows of the dataset
from .instance_samplers import UniformInstances as UniformInstances  # Every set of images of a class is equally likely
from .judges import embedded_judges as embedded_judges  # One network or several as judges, with their features of …
from .judges import is_judge as is_judge  # Whether a network is one of the judges
from .judges import Judge as Judge  # A network that judges or is held out
from .judges import judges_of as judges_of  # The networks that chose a testbed's images, by the metadata of the …
from .judges import split_method as split_method  # `BACKBONE[:METHOD]` as backbone and method
from .measures import DROP_HEADS as DROP_HEADS  # The heads of a table of drops
from .measures import attribute_shares as attribute_shares  # The share of each value of an attribute in every task
from .measures import is_network_column as is_network_column  # Whether a measured column is one network's
from .measures import recorded_drops as recorded_drops  # The drops of each draw that was joined into a testbed
from .measures import say_drops as say_drops  # A table as lines of text, judges beside held-out networks
from .measures import say_suspects as say_suspects  # One sentence on suspected images among the supports
from .meta_dataset_samplers import BilevelClasses as BilevelClasses  # Meta-Dataset's Omniglot rule on any two-level …
from .meta_dataset_samplers import HierarchicalClasses as HierarchicalClasses  # Meta-Dataset's ILSVRC rule on any …
from .meta_dataset_samplers import MetaDatasetShape as MetaDatasetShape  # Variable way and shot, as Meta-Dataset …
from .pools import ImageLimits as ImageLimits  # What limits the images of all tasks, whatever draws them
from .pools import rows_mask as rows_mask  # Which of the N rows of any table fulfil a rule over its columns, [N]
from .replay import find_spec_file as find_spec_file  # The spec of a source in a folder of specs
from .base import open_with_splits as open_with_splits  # A dataset with other splits or taxonomy
from .sampling import sample as sample  # Draw few-shot tasks from a dataset (or from each of several) into a testbed
from .selection.feature_table import FeatureTable as FeatureTable  # Class-major features that stay on disk
from .selection.feature_table import query_tasks as query_tasks  # Tasks from nested lists
from .selection.objectives import make_objective as make_objective  # An objective by its name
from .selection.objectives import OBJECTIVES as OBJECTIVES  # The names of what a selection may maximise
from .selection import select as select  # FastDiffSel
from .shapes import AnyShape as AnyShape  # Ways and shots vary from task to task, as in Cross-domain MetaDL
from .shapes import FixedShape as FixedShape  # Every task has `way` classes with `shot` support and `query` query …
from .shapes import ShapeLike as ShapeLike  # Task t has the ways of the other testbed's task t, and its shots and …
from .splits.build import SplitRecipe as SplitRecipe  # How to split
from .splits.build import Splitter as Splitter  # A dataset seen through features, ready to be split
from .splits.compare import compare_split as compare_split  # Measure one split under one set of class embeddings
from .splits.compare import compare_splits as compare_splits  # Measure splits under one or several backbones
from .splits.compare import compare_trees as compare_trees  # Ward clustering of class embeddings against a …
from .splits.compare import OddPair as OddPair  # Two classes that a tree and the taxonomy see differently
from .splits.compare import open_splits as open_splits  # The splits by name, in the class ids of `dataset`
from .splits.compare import SplitComparison as SplitComparison  # One split under one set of class embeddings
from .splits.embeddings import between as between  # The divergence `measure` of the class distributions of two …
from .splits.embeddings import class_embeddings as class_embeddings  # The mean feature of each class on the unit …
from .splits.embeddings import fit_gaussian as fit_gaussian  # Mean and unbiased covariance of points [n, d], plus …
from .splits.embeddings import gaussian_divergence as gaussian_divergence  # The divergence `measure` from Gaussian …
from .splits.embeddings import TreeGap as TreeGap  # How far two graphs over the same C classes are apart, over the C …
from .splits.make import estimate_split as estimate_split  # What `make_split` with the same parameters would take
from .splits.make import make_split as make_split  # Divide the classes of a dataset into train, validation and test
from .splits.make import split_kind as split_kind  # Which of KINDS the settings of `make_split` choose
from .splits.make import sweep_file as sweep_file  # Where one split of a sweep goes
from .splits.published_splits import list_published as list_published  # Every published split, the dataset it was …
from .splits.published_splits import open_split as open_split  # The split that `spec` names, checked against …
from .splits.published_splits import with_split as with_split  # `dataset` with the split that `spec` names in place …
from .splits.split import part_sizes as part_sizes  # Classes in (train, validation, test)
from .splits.split import Split as Split  # Class ids of the three parts, the fingerprint of the dataset they belong …
from .streams import Stream as Stream  # Random numbers of one stage, for every task or (task, class) slot
from .streams import Streams as Streams  # The streams of some tasks of one testbed
from .testbed import Testbed as Testbed  # A frozen list of tasks with its provenance
from .testbed_file import read_outline as read_outline  # What the tasks of a file are like, without their images …
from .testbed_file import sampler_settings as sampler_settings  # Setting and value as words, the three choices first
from .testbed_file import say_sampler as say_sampler  # How tasks were drawn, in one line
from .verification import identify_dataset as identify_dataset  # Say which testbeds and known datasets images serve
from .verification import check_images as check_images  # Read the images `keys` (sorted) again and compare them …
from .verification import EXIT_CODES as EXIT_CODES  # Of several the first counts
from .verification import ImageCheck as ImageCheck  # What was checked of the images that tasks use of one dataset …
from .verification import inspect as inspect  # Describe a testbed
from .verification import Inspection as Inspection  # What there is to say about a testbed
from .verification import Outcome as Outcome  # What a check of images found
from .verification import worst_outcome as worst_outcome  # The outcome of several checks together
from .words import check_sampler_settings as check_sampler_settings  # Refuse settings that do nothing
from .words import choice_of as choice_of  # The choice that a setting belongs to
from .words import CLASSES as CLASSES  # Longshot's own words for classes
from .words import described as described  # A choice by its word as plain values
from .words import INSTANCES as INSTANCES  # Longshot's own words for instances
from .words import JUDGED as JUDGED  # instances that look at features
from .words import make_classes as make_classes  # The class sampler that a word and its settings describe
from .words import make_shape as make_shape  # The shape that a word (fixed, any, meta-dataset, like:FILE) and its …
from .words import SampleSettings as SampleSettings  # the settings of `sample`: types and names
from .words import SHAPES as SHAPES  # Longshot's own words for shapes
from .words import GROUPS as GROUPS  # The settings of `sample` under their headings
from .words import sampler_words as sampler_words  # Word → what it means, of a choice
