"""What other rooms may use of this one, a line each."""

from . import columns as columns  # columns of a testbed: types, canonical form, hash
from . import describe as describe  # a testbed in numbers and histograms, and checked against its datasets
from .alike import AlikeClasses as AlikeClasses  # sampler: a class and some of its nearest ones by the looks
from .alike import make_taxonomy as make_taxonomy  # make a taxonomy of classes by their looks
from .base import Classes as Classes  # protocol: which classes a task has
from .base import Instances as Instances  # protocol: which images a task has
from .base import Pool as Pool  # what may be drawn: classes and images of a dataset
from .base import settings_of as settings_of  # a choice as JSON for the metadata
from .base import Shape as Shape  # protocol: how many classes, shots and queries
from .big_episode import BigEpisode as BigEpisode  # a dataset with train, validation and test images as one task
from .big_episode import shuffled_splits as shuffled_splits  # shuffle images into train, validation and test
from .big_episode import split_rows as split_rows  # rows of train, validation and test images
from .big_episode import with_splits as with_splits  # a dataset cut into train, validation and test as in VTAB
from .class_samplers import CoarsityClasses as CoarsityClasses  # sampler: tasks in a band of coarsity
from .class_samplers import draw_within as draw_within  # draw ways, then that many classes of a group
from .class_samplers import SemanticClasses as SemanticClasses  # sampler: classes close in meaning, balanced
from .class_samplers import SiblingClasses as SiblingClasses  # sampler: all classes of one super-class
from .class_samplers import UniformClasses as UniformClasses  # sampler: every set of classes is equally likely
from .columns import checksum as checksum  # SHA-256 over facts and all columns
from .columns import dictionary as dictionary  # distinct strings of a column
from .columns import of_dataset as of_dataset  # mark the tasks of a dataset
from .columns import places_among as places_among  # positions of a column's strings among names
from .columns import ragged as ragged  # a list column as flat numbers
from .columns import STANDARD as STANDARD  # columns that every testbed has, with their types
from .columns import Task as Task  # one task, as people read it
from .binding import bound_here as bound_here  # a testbed with the names that its images have on this machine
from .binding import find_dataset as find_dataset  # a dataset of a testbed, as this machine remembers it
from .binding import open_datasets as open_datasets  # bind a testbed to its datasets
from .binding import rebind as rebind  # find a testbed's images in another copy of a dataset
from .content import ContentEntry as ContentEntry  # what a file's metadata holds of the images of one dataset
from .content import ImageContent as ImageContent  # digests of the images that a testbed uses of one dataset
from .content import named_only as named_only  # content of images whose bytes were not looked at
from .content import pack as pack  # digests as text
from .content import read_images as read_images  # read the digests of some images
from .content import say_changed as say_changed  # the sentence about images that have other bytes
from .content import say_identity as say_identity  # in words: by content or by names
from .content import full_content as full_content  # content of images with these digests
from .content import unpack as unpack  # what `pack` wrote
from .describe import Balance as Balance  # how often the classes of a dataset occur
from .describe import bars as bars  # counts of values in bars
from .describe import bin_edges as bin_edges  # edges of equally wide intervals
from .describe import Change as Change  # a measure before and after selection
from .describe import straddling_tasks as straddling_tasks  # count tasks with copies on both sides
from .describe import dropped_classes as dropped_classes  # count classes left out for having few images
from .describe import summary as summary  # facts of a testbed as JSON values
from .difficult import DifficultInstances as DifficultInstances  # sampler: supports on which classifiers fail
from .difficult import EasyInstances as EasyInstances  # sampler: supports on which they succeed
from .difficult import GreedyInstances as GreedyInstances  # sampler: the greedy search of Agarwal et al
from .difficult_queries import DifficultQueryInstances as DifficultQueryInstances  # sampler: queries on which they fail
from .instance_samplers import draw_queries as draw_queries  # query images, the same for every sampler of a seed
from .instance_samplers import MatchedInstances as MatchedInstances  # sampler: support like the query
from .instance_samplers import objects_attribute as objects_attribute  # the attribute that counts objects in an image
from .instance_samplers import rule_set as rule_set  # cases of a named rule set
from .instance_samplers import RULE_SETS as RULE_SETS  # named rule sets of shifted and matched tasks
from .instance_samplers import ShiftedInstances as ShiftedInstances  # sampler: support unlike the query by a rule
from .instance_samplers import skip_past as skip_past  # positions among what is left → positions in the whole
from .instance_samplers import slots_to_rows as slots_to_rows  # positions inside classes → rows of the dataset
from .instance_samplers import UniformInstances as UniformInstances  # sampler: every set of images is equally likely
from .judges import embedded_judges as embedded_judges  # networks with their features of a dataset, as judges
from .judges import is_judge as is_judge  # tell whether a network is one of the judges
from .judges import Judge as Judge  # a network and its method, to judge or to be held out
from .judges import judges_of as judges_of  # networks that chose a testbed's tasks
from .judges import split_method as split_method  # `BACKBONE[:METHOD]` in two
from .measures import DROP_HEADS as DROP_HEADS  # heads of a table of drops
from .measures import attribute_shares as attribute_shares  # share of each value of an attribute in every task
from .measures import is_network_column as is_network_column  # tell whether a measured column belongs to one network
from .measures import recorded_drops as recorded_drops  # drops that a testbed records
from .measures import say_drops as say_drops  # drops as lines of a table
from .measures import say_others as say_others  # what a network that took no part meets
from .measures import say_suspects as say_suspects  # the sentence on suspected images
from .measures import Share as Share  # a mean accuracy or a difference, with half its interval
from .dial import say_target as say_target  # Say what a dial was set to and what it met
from .meta_dataset_samplers import BilevelClasses as BilevelClasses  # sampler: Meta-Dataset's Omniglot rule
from .meta_dataset_samplers import HierarchicalClasses as HierarchicalClasses  # sampler: Meta-Dataset's ILSVRC rule
from .meta_dataset_samplers import MetaDatasetShape as MetaDatasetShape  # shape: ways and shots vary as in Meta-Dataset
from .pools import ImageLimits as ImageLimits  # rules for the images of all tasks
from .pools import rows_mask as rows_mask  # mark rows of a table that fulfil a rule
from .replay import find_spec_file as find_spec_file  # a source's spec in a folder of Meta-Dataset's specs
from .base import open_with_splits as open_with_splits  # open a dataset with other splits or taxonomy
from .sampling import sample as sample  # draw few-shot tasks into a testbed
from .selection.feature_table import FeatureTable as FeatureTable  # class-major features that stay on disk
from .selection.feature_table import query_tasks as query_tasks  # tasks from nested lists
from .selection.objectives import make_objective as make_objective  # an objective of selection by its name
from .selection.objectives import OBJECTIVES as OBJECTIVES  # names of objectives of selection
from .selection import select as select  # FastDiffSel: choose supports by gradients
from .shapes import AllShape as AllShape  # every task has all classes, small ones with what they have
from .shapes import AnyShape as AnyShape  # shape: ways and shots vary, as in Cross-domain MetaDL
from .shapes import FixedShape as FixedShape  # shape: the same numbers for every task
from .shapes import ShapeLike as ShapeLike  # shape: that of another testbed, task by task
from .splits.build import SplitRecipe as SplitRecipe  # settings of a split at a divergence
from .splits.build import Splitter as Splitter  # a dataset seen through features, ready to be split
from .splits.compare import compare_split as compare_split  # measure one split under one set of class embeddings
from .splits.compare import compare_splits as compare_splits  # measure splits under backbones
from .splits.compare import compare_trees as compare_trees  # compare clusterings of classes with a taxonomy
from .splits.compare import OddPair as OddPair  # two classes that a tree and the taxonomy see differently
from .splits.compare import open_splits as open_splits  # open splits by name
from .splits.compare import SplitComparison as SplitComparison  # one split under one set of class embeddings
from .splits.embeddings import between as between  # divergence of the class distributions of two centroids
from .splits.embeddings import class_embeddings as class_embeddings  # mean feature of each class on the unit sphere
from .splits.embeddings import fit_gaussian as fit_gaussian  # mean and covariance of points
from .splits.embeddings import gaussian_divergence as gaussian_divergence  # divergence between two Gaussians
from .splits.embeddings import TreeGap as TreeGap  # how far two graphs over the same classes are apart
from .splits.hardness import Hardness as Hardness  # how hard the test classes of a split are
from .splits.make import make_split as make_split  # divide classes into train, validation and test
from .splits.make import split_kind as split_kind  # which kind of split settings choose
from .splits.make import sweep_file as sweep_file  # where one split of a sweep goes
from .splits.published_splits import list_published as list_published  # every published split with its sizes
from .splits.published_splits import open_split as open_split  # open a split by file or name
from .splits.published_splits import with_split as with_split  # a dataset with another split
from .splits.split import part_sizes as part_sizes  # classes in train, validation and test by ratios
from .splits.split import Split as Split  # class ids of the three parts, and how they were chosen
from .streams import Stream as Stream  # random numbers of one stage
from .streams import Streams as Streams  # random streams of the tasks of a testbed
from .testbed import Testbed as Testbed  # a frozen list of tasks with its provenance
from .testbed_file import read_outline as read_outline  # a quick look into a testbed file, without its images
from .testbed_file import sampler_settings as sampler_settings  # settings of a sampler in words
from .testbed_file import say_sampler as say_sampler  # how tasks were drawn, in one line
from .verification import identify_dataset as identify_dataset  # which testbeds and known datasets some images serve
from .verification import check_images as check_images  # read images again and compare them with the record
from .verification import EXIT_CODES as EXIT_CODES  # outcome of a check → exit code; of several the first counts
from .verification import ImageCheck as ImageCheck  # what a check of one dataset's images found
from .verification import inspect as inspect  # describe a testbed
from .verification import Inspection as Inspection  # what `inspect` gives
from .verification import Outcome as Outcome  # result of a check of images
from .verification import worst_outcome as worst_outcome  # the outcome of several checks together
from .words import check_sampler_settings as check_sampler_settings  # refuse settings that do nothing
from .words import choice_of as choice_of  # the choice that a setting belongs to
from .words import CLASS_CHOICES as CLASS_CHOICES  # words for classes
from .words import described as described  # a choice by its word as plain values
from .words import INSTANCES as INSTANCES  # words for instances
from .words import JUDGED as JUDGED  # words for instances that look at features
from .words import make_classes as make_classes  # class sampler from a word and settings
from .words import make_shape as make_shape  # shape from a word and settings
from .words import SampleSettings as SampleSettings  # settings of `sample`: names and types
from .words import SHAPES as SHAPES  # words for shapes
from .words import GROUPS as GROUPS  # headings of sampler settings in help
from .words import sampler_words as sampler_words  # the words of a choice and what each means
