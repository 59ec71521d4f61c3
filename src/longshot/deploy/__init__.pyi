"""What other rooms may use of this one, a line each."""

from .classifier import Classifier as Classifier  # A network, what a method learned, and what was measured of both
from .fitting import fit as fit  # Make a classifier from photos
from .onnx_file import export as export  # Write one ONNX file from decoded pixels to probabilities
from .prediction_table import Predictions as Predictions  # The answers of a model to photos
from .prediction_table import predict as predict  # Answer for photos by a shipped model
from .choice import Choice as Choice  # Which photos should be the references, and what that is worth
from .choosing import choose as choose  # Choose references, and measure what that is worth
from .estimator import FewShotClassifier as FewShotClassifier  # The same as scikit-learn's estimators are
