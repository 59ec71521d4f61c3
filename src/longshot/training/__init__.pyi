"""What other rooms may use of this one, a line each."""

from .base import ALGORITHMS as ALGORITHMS  # name → module:class
from .base import Algorithm as Algorithm  # A way of training
from .base import ImageBatch as ImageBatch  # Images of the train classes, augmented and preprocessed, on the device
from .base import algorithm_class as algorithm_class  # Find the class registered under `name`
from .base import algorithm_names as algorithm_names  # List the names of the registered algorithms, sorted
from .base import get_algorithm as get_algorithm  # Make an algorithm from its call, as `protonet(way=20)`
from .base import list_algorithms as list_algorithms  # List every algorithm and recipe
from .batch_algorithms import MetaDelta as MetaDelta  # MetaDelta++ as the winners' code runs it
from .batch_algorithms import TimeBudget as TimeBudget  # Time from now on
from .folders import TrainingJob as TrainingJob  # One call of `train`
from .folders import train_elsewhere as train_elsewhere  # Train on a cluster what is not trained yet
from .folders import load_state as load_state  # Put the checkpoint back into network and optimiser
from .folders import TrainedNetwork as TrainedNetwork  # A finished training
from .folders import read_trained as read_trained  # Read the outcome of the training in the folder
from .loop import train as train  # Train a network on the train classes of a dataset and keep the best one
from .search_trials import need_optuna as need_optuna  # Import the package that proposes trials
from .settings import TrainingSettings as TrainingSettings  # The settings of `train`: types, bounds and defaults
from .settings import ValidationTasks as ValidationTasks  # What a training is judged on
from .settings import choose_classes as choose_classes  # Train classes and validation classes, disjoint
from .settings import choose_shape as choose_shape  # Choose how many ways, shots and queries an episode has
from .settings import open_for_training as open_for_training  # Open the dataset with the splits and the taxonomy given
from .settings import plan_training as plan_training  # Return algorithm and settings of a training
from .settings import training_settings as training_settings  # Check `values` as settings
from .setup import estimate_training as estimate_training  # Estimate time and disk of a training
from .spaces import Parameter as Parameter  # What one parameter may be
from .spaces import Space as Space  # Parameters and the calls they go into
from .spaces import list_spaces as list_spaces  # List the parameters of Longshot's own spaces
from .steps import make_optimiser as make_optimiser  # Make the optimiser that `text` describes
from .steps import make_schedule as make_schedule  # Make the function from a step to its learning rate
from .training_episodes import check_enough as check_enough  # Keep the pool's classes with enough images for episodes
from .training_images import parse_augmentation as parse_augmentation  # Parse an augmentation string
from .search_trials import TrialObjective as TrialObjective  # What judges the trials of a search
from .search_trials import run_search as run_search  # Search a space, trial by trial, in a folder
from .spaces import Trial as Trial  # One point of a space
from .spaces import get_space as get_space  # Read a space by its name, or the only one of a YAML file
from .spaces import space_of_call as space_of_call  # Make the space of a call with settings searched
from .setup import prepare as prepare  # Check and build all that a training needs
