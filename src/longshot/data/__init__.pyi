"""What other rooms may use of this one, a line each."""

from . import registry as registry  # What Longshot remembers about datasets
from . import toybox as toybox  # the dataset that comes with Longshot, drawn when it is first used
from .catalogue import add_dataset as add_dataset  # Remember the dataset at `path` under `name`
from .catalogue import check_dataset as check_dataset  # Decode every image of a dataset, those left out earlier too
from .catalogue import describe_dataset as describe_dataset  # Describe a dataset in plain values
from .catalogue import list_datasets as list_datasets  # List the datasets that were opened or added on this machine
from .catalogue import list_formats as list_formats  # List the formats of datasets that are opened where they lie
from .dataset import Dataset as Dataset  # N images in C classes, class-major
from .dataset import IDENTITIES as IDENTITIES  # what a file made by Longshot vouches for
from .dataset import IDENTITY_VARIABLE as IDENTITY_VARIABLE
from .dataset import ImageStore as ImageStore  # Where pixels come from
from .dataset import SPLITS as SPLITS
from .dataset import canonical_split as canonical_split  # Return train, validation or test for any usual spelling
from .dataset import default_identity as default_identity  # Return what LONGSHOT_IDENTITY says
from .digests import DIGEST as DIGEST  # the column with the first 64 bits of each image's digest, in hex
from .digests import with_checked_attributes as with_checked_attributes  # Check that attributes are of these images
from .digests import digest_column as digest_column  # Write short digests as a column of text
from .digests import without_digests as without_digests  # Drop the column of digests from attributes
from .formats.base import Format as Format  # One way in which a dataset lies on disk
from .formats.base import assemble as assemble  # Assemble rows in any order into a class-major dataset
from .formats.base import images_below as images_below  # List the images in a folder and below it by relative path
from .formats.base import cached_index as cached_index  # Build a table from files, once until these change
from .formats.meta_dataset import class_ids_of as class_ids_of  # Return WordNet ids for ILSVRC
from .formats.meta_dataset import SPEC_SPLITS as SPEC_SPLITS  # Longshot's names → the spec's
from .formats.meta_dataset import Spec as Spec  # A source of Meta-Dataset: its classes, splits and graph
from .formats.meta_dataset import read_spec as read_spec  # Read a `dataset_spec.json` of Meta-Dataset
from .formats.meta_dataset import spec_dataset as spec_dataset  # Build a dataset of rows class by class
from .opening import VIEW_ENDING as VIEW_ENDING
from .derived import VIEW_KIND as VIEW_KIND
from .derived import ViewFile as ViewFile  # What a view file holds
from .derived import ViewFormat as ViewFormat  # The format of view files, recognised by their ending
from .derived import view_origin as view_origin  # Return the original of a view and the keys that it leaves out
from .derived import leave_out_images as leave_out_images  # Return the dataset without these images and classes
from .formats.vtab import SplitSlice as SplitSlice  # official split, from percent, to percent
from .formats.vtab import VTAB_TASKS as VTAB_TASKS
from .formats.vtab import cut_splits as cut_splits  # Turn percent of official splits into record numbers
from .taxonomy.readers import wordnet_above as wordnet_above  # Return the part of WordNet above the classes
from .get import get_dataset as get_dataset  # Download a published dataset, unpack it and register it under its name
from .get import list_downloads as list_downloads  # List the published datasets that can be got
from .get import plan_download as plan_download  # Plan what :func:`get_dataset` would do
from .dataset import TaxonomyLike as TaxonomyLike
from .dataset import class_labels as class_labels  # Map classes to what the taxonomy calls them
from .dataset import has_wordnet_ids as has_wordnet_ids  # Tell whether every class is called by a WordNet id
from .dataset import no_taxonomy as no_taxonomy  # Return the error for classes without a hierarchy
from .dataset import with_reduction as with_reduction  # Reduce the taxonomy of a dataset
from .dataset import taxonomy_facts as taxonomy_facts  # Return what a file records of the taxonomy it was made by
from .dataset import distances_among as distances_among  # Distances from a file between some classes
from .dataset import with_distances as with_distances  # Put distances from a file between the classes
from .dataset import with_taxonomy as with_taxonomy  # Put a hierarchy above the classes of a dataset
from .digests import ContentChanges as ContentChanges  # How images differ from what was recorded of them, by key
from .identity import Digests as Digests  # [M, 32]
from .identity import TICK as TICK  # ns
from .digests import are_sorted as are_sorted  # Tell whether distinct keys are in order, as those of most datasets are
from .digests import compare_content as compare_content  # Compare images as they were recorded with what they are now
from .digests import content_digest as content_digest  # Hash images into one SHA-256, in hex
from .identity import digest_words as digest_words  # View digests as values that can be sorted and compared
from .identity import HALVES as HALVES  # of the 64 bytes of an image: those of its bytes, those of its pixels
from .identity import remembered_images as remembered_images  # Return what is remembered of a source
from .identity import image_digests as image_digests  # Return the SHA-256 digest of images of a dataset
from .identity import stamp_rows as stamp_rows  # Stamp the files behind rows as they are now
from .identity import pixel_digests as pixel_digests  # Return the SHA-256 digest of the decoded pixels of images
from .identity import pixel_hash as pixel_hash  # Hash an image's size and its 8-bit RGB pixels
from .digests import pack_digests as pack_digests  # Pack short digests [M] as text for JSON
from .digests import short_digests as short_digests  # Return the first 8 bytes of each digest as a number [M]
from .digests import unpack_digests as unpack_digests  # Unpack the text of `pack_digests`
from .stores import ImageError as ImageError  # An image that cannot be read; `where` names it, `reason` says why
from .stores import array_bytes as array_bytes  # Return the bytes that stand for an image stored as an array
from .stores import decode_reduced as decode_reduced  # Decode an image, a JPEG no larger than is enough
from .opening import DatasetLike as DatasetLike  # a dataset, or what ``open_dataset`` opens
from .opening import as_dataset as as_dataset  # Return a dataset as it is, or open it where a name or a path is given
from .opening import open_located as open_located  # Open what `locate` found with every image it has, readable or not
from .opening import open_dataset as open_dataset  # Open a dataset; where it lives is remembered
from .opening import source_path as source_path  # Return the path in a source
from .opening import class_branches as class_branches  # List the first parts of nested class ids
from .catalogue import Survey as Survey  # What was seen of N images, in the order of their dataset
from .catalogue import find_bad as find_bad  # Decode every image and return (key, reason) of those that cannot be read
from .catalogue import survey_images as survey_images  # Decode every image and note what it is like
from .opening import take_rows as take_rows  # Return the dataset with these rows only
from .opening import take_branch as take_branch  # Return the classes below one branch of the class ids
from .registry import sources_with as sources_with  # List remembered datasets that have all of these images
from .registry import reopen_dataset as reopen_dataset  # Find the dataset with this fingerprint and open it
from .digests import Shipment as Shipment  # How images come to the workers of an executor
from .digests import portable_dataset as portable_dataset  # Return a dataset that workers can open
from .digests import read_digests as read_digests  # Hash what each row holds, to compare machines
from .digests import plan_shipment as plan_shipment  # Decide whether images travel with the work to other nodes
from .file_readers import check_splits as check_splits  # Order splits as train, validation, test, without empty ones
from .file_readers import read_attributes as read_attributes  # Read a table of attributes, in the order of a dataset
from .file_readers import resolve_classes as resolve_classes  # Return the class ids for ids or unique names
from .stores import FileStore as FileStore  # Images in files: row i is `root / keys[i]`
from .stores import RowsStore as RowsStore  # Some rows of another store: row i is `store`'s row `rows[i]`
from .stores import ZipStore as ZipStore  # Images inside a zip, read member by member
from .stores import encoded_of as encoded_of  # Return the bytes that the digest of a row is over
from .stores import innermost as innermost  # Return the store that parts and views stand on, and the rows there
from .stores import prepare_rows as prepare_rows  # Tell a store which rows will be read
from .stores import read_reduced as read_reduced  # Read an image and its full size
from .stores import stamps_of as stamps_of  # Return the stamps of rows
from .taxonomy.distances import coarsity as coarsity  # Mean squared distance over the unordered pairs of classes of …
from .taxonomy import Taxonomy as Taxonomy  # A DAG with one root
from .taxonomy.distances import REDUCTIONS as REDUCTIONS
from .taxonomy.distances import by_images as by_images  # Tell whether a distance counts images below nodes
from .taxonomy.distances import class_distances as class_distances  # Compute the distances between all classes
from .taxonomy.distances import lowest_common_ancestors as lowest_common_ancestors  # Return the node above each pair
from .taxonomy.distances import reduce_taxonomy as reduce_taxonomy  # Keep one shortest path per class, or all
from .taxonomy.picture import draw_taxonomy as draw_taxonomy  # Draw a taxonomy as a tree: PNG, SVG or PDF
from .taxonomy.readers import EDGES as EDGES  # People write and correct such files by hand
from .taxonomy.readers import is_taxonomy_file as is_taxonomy_file  # Tell whether a file is a taxonomy, not a dataset
from .taxonomy.readers import read_ids as read_ids  # Read the first column of a text or CSV file, in order, each once
from .taxonomy.readers import read_taxonomy as read_taxonomy  # Read a CSV, JSON or WordNet file
from .taxonomy.readers import write_csv as write_csv  # Write the edge list that :func:`read_taxonomy` reads back
from .taxonomy.picture import Branch as Branch  # A node of a taxonomy to show
from .taxonomy.picture import display_tree as display_tree  # Build a tree to show, with counts per node
from .taxonomy.readers import WORDNET_ROOT as WORDNET_ROOT  # entity
from .taxonomy.readers import find_wordnet as find_wordnet  # Find the installed `data.noun`
from .taxonomy.readers import read_wordnet as read_wordnet  # Read all noun synsets of WordNet 3.0
from .taxonomy.picture import class_hierarchy as class_hierarchy  # Open a taxonomy with its classes
from .taxonomy.picture import measure_distances as measure_distances  # Measure the distances between classes
from .taxonomy.picture import open_taxonomy as open_taxonomy  # Open the hierarchy of a dataset's classes
from .trees import Tree as Tree  # All files at a path: a folder, a zip or a tar
from .trees import is_archive as is_archive  # Tell whether a name is that of an archive which opens like a folder
from .trees import list_tree as list_tree  # List what lies in a folder, a zip or a tar
from .stores import decode as decode  # Decode an encoded image into an upright RGB image
from .class_relations import RELATIONS as RELATIONS  # the strongest first
from .class_relations import known_copies as known_copies  # Copies that an earlier comparison of two datasets found
from .class_relations import overlap_name as overlap_name  # The file of the cache with what two datasets share
from .class_relations import related_classes as related_classes  # Classes that mean the same as the other's
from .class_relations import read_nouns as read_nouns  # WordNet's nouns, where WordNet is installed
from .class_relations import SharedClass as SharedClass  # A pair of classes of two datasets, and how they are related
from .class_relations import seen_classes as seen_classes  # Classes that a network has met, by name
from .class_relations import shared_classes as shared_classes  # Classes that two datasets share
