"""What ``import longshot`` offers: verbs, nouns, and rooms with functions of their own. Imported on first use."""

from . import arena as arena
from . import audit as audit
from . import data as data
from . import models as models
from . import studies as studies
from . import training as training
from .data import open_dataset as open_dataset  # images and classes from a folder, a file, a name
from .data import list_datasets as list_datasets  # what is registered here
from .data import get_dataset as get_dataset  # download a published dataset
from .tasks import identify_dataset as identify_dataset  # which testbeds and datasets a folder serves
from .audit import show_dataset as show_dataset  # classes, sizes, copies and odd images at a glance
from .audit import find_overlap as find_overlap  # what two datasets share
from .audit import find_suspects as find_suspects  # images whose label is doubtful
from .models import list_backbones as list_backbones  # what can embed images
from .models import embed as embed  # run a backbone over a dataset
from .data import open_taxonomy as open_taxonomy  # a hierarchy of classes
from .tasks import make_taxonomy as make_taxonomy  # a hierarchy of classes by their looks
from .data import measure_distances as measure_distances  # how far classes are from each other
from .tasks import open_split as open_split  # a class split from a file or by name
from .tasks import make_split as make_split  # divide classes at a chosen distance
from .tasks import compare_splits as compare_splits  # measure splits side by side
from .api import plot_splits as plot_splits  # draw splits: their classes in the plane, or how hard they are
from .tasks import sample as sample  # draw tasks into a testbed
from .api import inspect as inspect  # describe and check a testbed
from .diagnosis import check as check  # from a folder of images to a verdict
from .deploy import choose as choose  # which photos should be the references
from .deploy import fit as fit  # a classifier from photos
from .deploy import predict as predict  # a shipped classifier's answers to photos
from .deploy import export as export  # a shipped classifier as one ONNX file
from .diagnosis import measure_attributes as measure_attributes  # what is known of images
from .diagnosis import suggest_attributes as suggest_attributes  # attributes by what a shift in them costs
from .diagnosis import explain as explain  # why tasks are hard
from .models import list_methods as list_methods  # what learns from a support set
from .api import check_method as check_method  # the common test of a method
from .evaluation import evaluate as evaluate  # run methods over testbeds
from .evaluation import compare as compare  # two runs, task by task
from .api import report as report  # a page from results
from .training import train as train  # make a backbone
from .api import tune as tune  # search for settings
from .studies import run_study as run_study  # a paper's protocol on any dataset
from .publish import bench as bench  # a model on a frozen suite
from .publish import release as release  # publish testbeds
from .publish import verify as verify  # check a copy of a release
from .evaluation import score as score  # score predictions of any code
from .explorer import serve as serve  # the explorer in the browser
from .arena import serve_competition as serve_competition  # a competition server
from .api import estimate as estimate  # what a verb would take
from .api import doctor as doctor  # what is installed here
from .base import UserError as UserError
from .data import Dataset as Dataset
from .models import Features as Features
from .tasks import Testbed as Testbed
from .evaluation import Results as Results
from .data import Taxonomy as Taxonomy
from .tasks import Split as Split
from .training import TrainedNetwork as TrainedNetwork
from .deploy import Classifier as Classifier
from .deploy import FewShotClassifier as FewShotClassifier
from .tasks import FixedShape as FixedShape
from .tasks import AllShape as AllShape
from .tasks import AnyShape as AnyShape
from .tasks import MetaDatasetShape as MetaDatasetShape
from .tasks import ShapeLike as ShapeLike
from .tasks import UniformClasses as UniformClasses
from .tasks import AlikeClasses as AlikeClasses
from .tasks import SiblingClasses as SiblingClasses
from .tasks import SemanticClasses as SemanticClasses
from .tasks import CoarsityClasses as CoarsityClasses
from .tasks import HierarchicalClasses as HierarchicalClasses
from .tasks import BilevelClasses as BilevelClasses
from .tasks import UniformInstances as UniformInstances
from .tasks import DifficultInstances as DifficultInstances
from .tasks import DifficultQueryInstances as DifficultQueryInstances
from .tasks import EasyInstances as EasyInstances
from .tasks import GreedyInstances as GreedyInstances
from .tasks import ShiftedInstances as ShiftedInstances
from .tasks import MatchedInstances as MatchedInstances
from .tasks import ImageLimits as ImageLimits

competition = arena  # for organisers and participants
__version__: str
