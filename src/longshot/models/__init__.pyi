"""What other rooms, and packages that add methods and backbones, may use of this one, a line each."""

from .backbones import BackboneLike as BackboneLike  # whatever serves as a backbone: a name, an array, a module, …
from .backbones import FAMILIES as FAMILIES  # Longshot's own families of backbones
from .backbones import find_family as find_family  # Return the family a name belongs to
from .backbones import default_networks as default_networks  # Return the networks that judge where none is named
from .backbones import list_backbones as list_backbones  # List the backbones that can embed images and what is missing
from .backbones import load_backbone as load_backbone  # Open the backbone called `name`
from .backbones import open_backbone as open_backbone  # Open whatever serves as a backbone
from .backbones import split_label as split_label  # Split a text into its label and what it names
from .backbones.base import Backbone as Backbone  # Images [B, 3, H, W] float32 → vectors [B, d]
from .backbones.base import ModuleBackbone as ModuleBackbone  # a backbone around an `nn.Module`
from .backbones.base import Precomputed as Precomputed  # vectors that exist already
from .backbones.base import hash_state as hash_state  # Hash a module's weights
from .backbones.base import no_network as no_network  # Make the error for a method that needs images and a network
from .backbones.sight import Sight as Sight  # which pixels a backbone sees: Sight().of("decode|resize(32,32)")
from .backbones.sight import bare_name as bare_name  # Remove from a name what it says of pixels
from .backbones.sight import split_sight as split_sight  # Split a name into the name and its pixels
from .features.conversion import NotExportable as NotExportable  # A network cannot be written as an ONNX file
from .features.conversion import difference as difference  # How far vectors are from their reference, in its lengths
from .features.conversion import export_onnx as export_onnx  # Export a network as an ONNX file
from .features.conversion import open_session as open_session  # Open an exported network in a runtime
from .features.array_files import open_array as open_array  # Open a .npy [N, d] of float16 or float32 as a memory map
from .features.array_files import sidecar as sidecar  # Return the path of the JSON beside an array
from .features.cache import Shards as Shards  # the finished pieces of an array, `size` rows each
from .features.cache import cache_entries as cache_entries  # List what the cache holds, largest first
from .features.cache import hold_lock as hold_lock  # Hold a file of the cache for this process
from .features.cache import open_guarded as open_guarded  # Open an array that `Shards.assemble` joined
from .features.cache import prunable_entries as prunable_entries  # List what of the cache may be deleted
from .features.cache import prune_cache as prune_cache  # Delete entries and folders left empty
from .features.decode import read_pixels as read_pixels  # Read the bytes [H, W, 3] of a row, as the preprocessing says
from .features.engine import probe_speed as probe_speed  # Measure images per second on real images
from .features.extract import embed as embed  # Compute the features of a dataset through a backbone
from .features.extract import embed_rows as embed_rows  # Compute the features of some images of a dataset
from .features.extract import estimate_embedding as estimate_embedding  # Estimate what `embed` would take
from .features import Features as Features  # N images of C classes as d numbers each
from .features import claim_features as claim_features  # Refuse where features may not be written
from .features.lookup import grown_arrays as grown_arrays  # Open what all places of the cache hold of a view
from .features.lookup import Content as Content  # a dataset's images as they were when they were looked at
from .features.lookup import check_made_from as check_made_from  # Refuse features that were made from other images
from .features.lookup import content_of as content_of  # Look at the images of a dataset as they are now
from .features.pixels_cache import Describe as Describe  # Images and positions of a shard → their values
from .features.pixels_cache import cached_pixels as cached_pixels  # Return the bytes of all images of a dataset
from .features.pixels_cache import read_shards as read_shards  # Fill the shards that are missing
from .features.pixels_cache import row_positions as row_positions  # Map rows of a dataset to positions among some rows
from .features.suspects import SUSPECT_ODDS as SUSPECT_ODDS  # another class is at least so many times as probable
from .features.suspects import Suspects as Suspects  # The suspected images of a dataset seen through one backbone
from .features.suspects import suspects_of as suspects_of  # Find the images of a dataset whose label looks wrong
from .leaks import SeenImages as SeenImages  # Images by content
from .leaks import Stage as Stage  # One training of a network, with its images where they are on record
from .leaks import TestedImages as TestedImages  # The images that a testbed uses of one dataset
from .leaks import TrainingStage as TrainingStage  # What a network, or one that it started from, was trained on
from .leaks import digest_images as digest_images  # Images of a dataset by content
from .leaks import find_leaks as find_leaks  # What is known of test images and classes that training saw
from .leaks import published_stage as published_stage  # What is known of a network by the name of its published …
from .leaks import read_seen as read_seen  # The training images of a network, by stage
from .leaks import unpack_mask as unpack_mask  # Which test images were seen in training
from .leaks import write_seen as write_seen  # Write the training images of a network beside its weights
from .leaks import training_stages as training_stages  # What is known of the training of a backbone
from .methods import MethodLike as MethodLike  # whatever serves as a method: a name, a function, a classifier, …
from .methods import VARIANTS as VARIANTS  # methods as the authors of a paper ran them
from .methods import feature_method as feature_method  # Make a method where only features are at hand
from .methods import find_variant as find_variant  # Find the variant called `name`; UserError with the nearest name
from .methods import get_method as get_method  # Make a method from its call or from an object
from .methods import image_method_names as image_method_names  # List the methods that need images
from .methods import is_own_method as is_own_method  # Tell whether a name points to a file or scikit-learn
from .methods import list_methods as list_methods  # List the methods that learn from a support set
from .methods import method_class as method_class  # Return the class of the method `name`
from .methods import method_names as method_names  # Return the names of the methods on features
from .methods import variant_methods as variant_methods  # Make the methods in a variant's settings
from .methods import variant_of as variant_of  # Name the variant whose settings `method` has
from .methods.accuracies import method_accuracies as method_accuracies  # A method's accuracy on tasks
from .methods.accuracies import spread_accuracies as spread_accuracies  # The same, by any executor
from .methods.base import AnyMethod as AnyMethod  # what all methods have in common
from .methods.base import ImageMethod as ImageMethod  # A way to classify queries that sees images and the network
from .methods.base import LOWEST as LOWEST  # the score of a class without support
from .methods.base import Method as Method  # A way to classify queries from a support set by their features
from .methods.base import mask_absent as mask_absent  # Set scores of classes without support to −∞
from .methods.base import Gatherer as Gatherer  # Reads rows of one or several features arrays
from .methods.accuracies import accuracies as accuracies  # Measure the share of right answers of each task
from .methods.base import advise_access as advise_access  # Tell the system how a memory-mapped array will be read
from .methods.base import padded_batches as padded_batches  # Yield tasks of similar size together as padded tensors
from .methods.base import bytes_per_task as bytes_per_task  # Return the memory of one task in a batch
from .methods.image_method_checks import IMAGE_CHECKS as IMAGE_CHECKS  # the common test of methods that need …
from .methods.image_method_checks import IMAGE_TOLERANCE as IMAGE_TOLERANCE  # relative, of scores
from .methods.image_method_checks import SmallNetwork as SmallNetwork  # Patches, one block of attention, a batch norm
from .methods.image_method_checks import make_task as make_task  # Make a task of noisy pictures
from .methods.image_method_checks import run_image_checks as run_image_checks  # Run every check of a method on images
from .methods.image_method_checks import run_image_method as run_image_method  # scores per task, their shapes checked
from .methods.meta_trained import CTX_KEY as CTX_KEY  # name among a network's extras
from .methods.meta_trained import CTX_VALUE as CTX_VALUE  # name among a network's extras
from .methods.finetune_network import Adapted as Adapted  # Trains a copy of the network on every support set
from .methods.finetune_network import FinetuneAll as FinetuneAll  # fine-tunes a whole network on every support set
from .methods.meta_trained import ctx_heads as ctx_heads  # Compute keys and values at the places of maps
from .methods.meta_trained import ctx_scores as ctx_scores  # Score queries as CrossTransformers do
from .methods.method_checks import CHECKS as CHECKS  # the common test of methods on features: name → what it asks
from .methods.method_checks import World as World  # Features [classes · per_class, dim] of overlapping clouds
from .methods.method_checks import run_checks as run_checks  # Run every check of a method on features
from .methods.method_checks import task_rows as task_rows  # Return the tasks as an evaluation has them
from .methods.metric_methods import ProtoNet as ProtoNet  # scores by distance to class means
from .methods.task_parameters import restart_layers as restart_layers  # Draw new weights as PyTorch starts layers
from .methods.transport import metadelta_decode as metadelta_decode  # MetaDelta++'s decoder of one task
from .networks import ALIASES as ALIASES  # networks by the names that papers give them
from .networks import get_network as get_network  # Build a trainable network in training mode, on the CPU
from .networks import is_own_network as is_own_network  # Tell whether `call` builds one of Longshot's own networks
from .networks import network_class as network_class  # Find the class registered under `name`
from .networks.base import Ensemble as Ensemble  # [√w₁ v₁/‖v₁‖, √w₂ v₂/‖v₂‖, …]
from .networks.base import Network as Network  # Images [B, 3, H, W] → vectors [B, dim], by way of maps [B, dim, h, w]
from .networks.base import count_flops as count_flops  # Count the operations of a network on one image
from .networks.base import count_parameters as count_parameters  # Count the numbers that training may change
from .networks.base import last_stages as last_stages  # Return the blocks of the last `count` stages of a network
from .networks.checkpoint import SIDECAR_FILE as SIDECAR_FILE  # the name of the facts beside them
from .networks.checkpoint import WEIGHTS_FILE as WEIGHTS_FILE  # the name of a saved network's weights
from .networks.checkpoint import convert_checkpoint as convert_checkpoint  # Save published weights as a network
from .networks.checkpoint import load_checkpoint as load_checkpoint  # Read a saved network and its sidecar
from .networks.checkpoint import read_weights_sidecar as read_weights_sidecar  # Read the JSON beside weights
from .networks.checkpoint import save_checkpoint as save_checkpoint  # Write weights and sidecar
from .networks.checkpoint import weights_file as weights_file  # Find the .safetensors in a folder
from .networks.fixed_norms import prepare_fixed_norms as prepare_fixed_norms  # Rewrite a network for gradient steps
from .networks.fixed_norms import trainable_copy as trainable_copy  # Copy a network for gradient steps
from .networks.inner import HeadStart as HeadStart  # how the head of an inner loop starts
from .networks.inner import InnerLoop as InnerLoop  # what an inner loop does
from .networks.inner import LEARNED_HEAD as LEARNED_HEAD  # name among a network's extras
from .networks.inner import Moves as Moves  # what an inner loop moves
from .networks.inner import has_batch_norm as has_batch_norm  # Tell whether a network has batch norms
from .networks.inner import loop_weights as loop_weights  # Return the weights that an inner loop starts from
from .networks.inner import private_copy as private_copy  # Copy the modules around the same weights
from .networks.inner import query_logits as query_logits  # Score queries after every task's inner loop
from .networks.inner import tasks_at_once as tasks_at_once  # Return how many tasks are best computed side by side
from .methods.base import leaves_open as leaves_open  # Tell whether a method has settings to choose
from .backbones import adaptable as adaptable  # Open a backbone as a network that methods can adapt
from .backbones import backbone_parts as backbone_parts  # Split `"pixels + efficientnet-lite0"` into its backbones
from .backbones import backbone_name as backbone_name  # Return the canonical name of backbones
