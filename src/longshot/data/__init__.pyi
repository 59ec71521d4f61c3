"""What other rooms may use of this one, a line each."""

from . import registry as registry  # What Longshot remembers about datasets
from . import toybox as toybox  # the dataset that comes with Longshot, drawn when it is first used
from .catalogue import add_dataset as add_dataset  # Remember the dataset at `path` under `name`
from .catalogue import check_dataset as check_dataset  # Decode every image of a dataset, those left out earlier …
from .catalogue import describe_dataset as describe_dataset  # What there is to say of a dataset, as plain values
from .catalogue import list_datasets as list_datasets  # The datasets that were opened or added on this machine, and …
from .catalogue import list_formats as list_formats  # The formats of datasets that are opened where they lie
from .dataset import Dataset as Dataset  # N images in C classes, class-major
from .dataset import IDENTITIES as IDENTITIES  # what a file made by Longshot vouches for
from .dataset import IDENTITY_VARIABLE as IDENTITY_VARIABLE
from .dataset import ImageStore as ImageStore  # Where pixels come from
from .dataset import SPLITS as SPLITS
from .dataset import canonical_split as canonical_split  # `train`, `validation` or `test` for the spellings in use …
from .dataset import default_identity as default_identity  # What LONGSHOT_IDENTITY says, by content where it says …
from .digests import DIGEST as DIGEST  # the column with the first 64 bits of each image's digest, in hex
from .digests import described as described  # The dataset with attributes that are known to be of its images
from .digests import digest_column as digest_column  # Short digests as text
from .digests import without_digests as without_digests  # The attributes without the digests of the images
from .formats.base import Format as Format  # One way in which a dataset lies on disk; plugins subclass it
from .formats.base import assemble as assemble  # Rows in any order → a class-major dataset
from .formats.base import images_below as images_below  # The images below a folder, for a format
from .formats.base import remembered as remembered  # An index of files, made once and remembered until they change
from .formats.meta_dataset import class_ids_of as class_ids_of  # WordNet ids for ILSVRC
from .formats.meta_dataset import SPEC_SPLITS as SPEC_SPLITS  # Longshot's names → the spec's
from .formats.meta_dataset import Spec as Spec  # A source
from .formats.meta_dataset import read_spec as read_spec  # Read a `dataset_spec.json` of Meta-Dataset
from .formats.meta_dataset import spec_dataset as spec_dataset  # the dataset that a spec of Meta-Dataset describes
from .derived import VIEW_ENDING as VIEW_ENDING
from .derived import VIEW_KIND as VIEW_KIND
from .derived import ViewFile as ViewFile  # What a view file holds
from .derived import ViewFormat as ViewFormat  # The format of view files, recognised by their ending
from .derived import view_origin as view_origin  # (fingerprint of the original, keys left out) when this is the …
from .derived import leave_out_images as leave_out_images  # The dataset without these images and classes
from .formats.vtab import SplitSlice as SplitSlice  # official split, from percent, to percent
from .formats.vtab import TASKS as TASKS
from .formats.vtab import cut as cut  # Percent of official splits → record numbers
from .taxonomy.readers import wordnet_above as wordnet_above  # The part of WordNet above the classes
from .get.transfer import in_bytes as in_bytes  # A size for people
from .get import get_dataset as get_dataset  # Download a published dataset, unpack it and register it under its …
from .get import list_downloads as list_downloads  # The published datasets that can be got, and those that a …
from .get import plan_download as plan_download  # What :func:`get_dataset` would do
from .dataset import TaxonomyLike as TaxonomyLike
from .dataset import class_labels as class_labels  # Class → what the taxonomy calls it, for the classes whose own …
from .dataset import has_wordnet_ids as has_wordnet_ids  # Whether every class is called by a WordNet id, as …
from .dataset import no_taxonomy as no_taxonomy  # The error for a dataset whose classes have no hierarchy where …
from .dataset import reduced as reduced  # The dataset with its taxonomy reduced for all of its classes
from .dataset import taxonomy_facts as taxonomy_facts  # What a file tells of the taxonomy that it was made by
from .dataset import with_taxonomy as with_taxonomy  # The dataset with a hierarchy above its classes in place of …
from .digests import ContentChanges as ContentChanges  # How images differ from what was recorded of them, by key …
from .identity import Digests as Digests  # [M, 32]
from .identity import TICK as TICK  # ns
from .digests import are_sorted as are_sorted  # Whether distinct keys are in order, as those of most datasets are
from .digests import compare_content as compare_content  # What differs between images as they were recorded and as …
from .digests import content_digest as content_digest  # One SHA-256, in hex, over images
from .identity import digest_of as digest_of  # The digest (32 bytes) of one row of a store, read now
from .identity import digest_words as digest_words  # Digests as values that can be sorted and compared
from .identity import HALVES as HALVES  # of the 64 bytes of an image: those of its bytes, those of its pixels
from .identity import remembered_images as remembered_images  # What is remembered of a source, bytes and pixels
from .identity import from_source as from_source  # The store, where it reads unpacked copies with copies that were …
from .identity import image_digests as image_digests  # The SHA-256 digest of images of a dataset
from .identity import look_at as look_at  # The stamps of rows, now
from .identity import pixel_digests as pixel_digests  # The SHA-256 digest of the decoded pixels of images
from .identity import pixel_hash as pixel_hash  # SHA-256 of an image's size and its 8-bit RGB pixels
from .digests import pack_digests as pack_digests  # Short digests [M] as text for JSON
from .digests import short_digests as short_digests  # The first 8 bytes of each digest as a number [M]
from .digests import unpack_digests as unpack_digests  # What `pack_digests` wrote
from .stores import ImageError as ImageError  # An image that cannot be read
from .stores import array_bytes as array_bytes  # What stands for an image that is stored as an array
from .stores import decode_reduced as decode_reduced  # As `decode`, but a JPEG at a half, a quarter or an eighth of …
from .opening import DatasetLike as DatasetLike  # a dataset, or what ``open_dataset`` opens
from .opening import as_dataset as as_dataset  # A dataset as it is, or opened where a name or a path was given
from .opening import open_located as open_located  # Open what `locate` found with every image it has, readable or not
from .opening import locate as locate  # Where a dataset lies
from .opening import open_dataset as open_dataset  # Open a dataset
from .opening import branches as branches  # First parts of the class ids that have something below them, in order
from .survey import Survey as Survey  # What was seen of every image: size, colour, whether it can be read
from .survey import find_bad as find_bad  # Decode every image and list those that cannot be read
from .survey import survey as survey  # Decode every image once and note what it is like
from .opening import take_rows as take_rows  # The dataset with these rows only
from .opening import under as under  # The classes below one branch of the class ids, such as all species of one …
from .registry import sources_with as sources_with  # Datasets that are remembered with all of these images
from .registry import find as find  # Reopen the dataset with this fingerprint
from .digests import Shipment as Shipment  # How images come to the workers of an executor
from .digests import portable_dataset as portable_dataset  # The dataset as workers can open it
from .digests import read_digests as read_digests  # SHA-256 of what each row holds
from .digests import shipment as shipment  # Let every node read a few images
from .file_readers import check_splits as check_splits  # The splits in the order train, validation, test, …
from .file_readers import read_attributes as read_attributes  # A table of attributes, in the order of a dataset …
from .file_readers import resolve_classes as resolve_classes  # Class ids for ids, or for class names that are unique
from .stores import FileStore as FileStore  # Images in files
from .stores import RowsStore as RowsStore  # Some rows of another store
from .stores import ZipStore as ZipStore  # Images inside a zip, read member by member
from .stores import encoded_of as encoded_of  # What the digest of a row is over
from .stores import innermost as innermost  # The store that parts and views stand on, and the rows there
from .stores import prepare_rows as prepare_rows  # Tell a store which rows will be read
from .stores import read_reduced as read_reduced  # An image and its full size
from .stores import stamps_of as stamps_of  # The stamps of rows [M, 3]
from .taxonomy.distances import coarsity as coarsity  # Mean squared distance over the unordered pairs of classes of …
from .taxonomy import Taxonomy as Taxonomy  # A DAG with one root
from .taxonomy.distances import REDUCTIONS as REDUCTIONS
from .taxonomy.distances import by_images as by_images  # Whether a distance depends on how many images lie below a …
from .taxonomy.distances import class_distances as class_distances  # Distances [C, C] between all pairs of classes …
from .taxonomy.distances import extreme_pairs as extreme_pairs  # The `count` pairs i < j with the smallest values …
from .taxonomy.distances import lowest_common_ancestors as lowest_common_ancestors  # [C, C] positions in …
from .taxonomy.distances import reduce_taxonomy as reduce_taxonomy  # The taxonomy that distances are computed on
from .taxonomy.picture import draw_taxonomy as draw_taxonomy  # Write a PNG, SVG or PDF
from .taxonomy.readers import EDGES as EDGES  # People write and correct such files by hand
from .taxonomy.readers import MATRIX as MATRIX
from .taxonomy.readers import is_taxonomy_file as is_taxonomy_file  # Whether a file is a taxonomy, not a dataset
from .taxonomy.readers import read_counts as read_counts  # Images [C] of `class_ids` from {class
from .taxonomy.readers import read_ids as read_ids  # First column of a text or CSV file, in order, each once
from .taxonomy.readers import read_taxonomy as read_taxonomy  # Read an edge list (`.csv`, `.json`), nested JSON, or …
from .taxonomy.readers import write_csv as write_csv  # Write the edge list that :func:`read_taxonomy` reads back …
from .taxonomy.readers import write_matrix as write_matrix  # Write numbers [C, C] between classes as CSV, with the …
from .taxonomy.picture import Branch as Branch  # A node to show
from .taxonomy.picture import display_tree as display_tree  # The part of the taxonomy above `class_ids` as a tree
from .taxonomy.readers import WORDNET_ROOT as WORDNET_ROOT  # entity
from .taxonomy.readers import find_wordnet as find_wordnet  # The installed `data.noun`
from .taxonomy.readers import read_wordnet as read_wordnet  # All noun synsets of WordNet 3.0 (82,115) below …
from .taxonomy.hierarchies import class_hierarchy as class_hierarchy  # As :func:`open_taxonomy`, with the classes
from .taxonomy.hierarchies import measure_distances as measure_distances  # Distances between all classes of a …
from .taxonomy.hierarchies import open_taxonomy as open_taxonomy  # the hierarchy of a dataset's classes, or of a file
