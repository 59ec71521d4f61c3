"""What other rooms, and packages that add methods and backbones, may use of this one, a line each."""

from .backbones import BackboneLike as BackboneLike  # whatever serves as a backbone: a name, an array, a module, …
from .backbones import FAMILIES as FAMILIES  # Longshot's own families of backbones
from .backbones import find_family as find_family  # the family a name belongs to, or an error with the nearest name
from .backbones import list_backbones as list_backbones  # the backbones that can embed images, and what is missing …
from .backbones import load_backbone as load_backbone  # the backbone called `name`, which may stand behind a label
from .backbones import open_backbone as open_backbone  # whatever serves as a backbone, opened
from .backbones import split_label as split_label  # the label of a backbone, where it has one, and the rest of the …
from .backbones.base import Backbone as Backbone  # Images [B, 3, H, W] float32 → vectors [B, d]
from .backbones.base import ModuleBackbone as ModuleBackbone  # a backbone around an `nn.Module`
from .backbones.base import Precomputed as Precomputed  # vectors that exist already
from .backbones.base import hash_state as hash_state  # the hash of a module's weights
from .backbones.base import no_network as no_network  # what to say where a method needs images and a network, but …
from .backbones.sight import Sight as Sight  # which pixels a backbone sees: Sight().of("decode|resize(32,32)")
from .backbones.sight import bare_name as bare_name  # a name without what it says of pixels
from .backbones.sight import split_sight as split_sight  # a backbone's name without what it says of pixels, and that
from .features.conversion import export_onnx as export_onnx  # the ONNX file of a network for blocks of images
from .features.conversion import open_session as open_session  # an exported network in `onnxruntime` or `openvino`
from .features.array_files import open_array as open_array  # memory-map a .npy [N, d], or say what is wrong with it
from .features.array_files import sidecar as sidecar  # the JSON beside an array
from .features.cache import Shards as Shards  # the finished pieces of an array, `size` rows each
from .features.cache import cache_entries as cache_entries  # everything in the cache, largest first
from .features.cache import hold_lock as hold_lock  # hold a file of the cache for this process
from .features.cache import open_guarded as open_guarded  # the array [N, d] that `Shards.assemble` joined at …
from .features.cache import prunable_entries as prunable_entries  # what of the cache may be deleted
from .features.cache import prune_cache as prune_cache  # delete it
from .features.decode import read_pixels as read_pixels  # bytes [H, W, 3] of a row, as the preprocessing says
from .features.engine import probe_speed as probe_speed  # (images/s, d), measured for a few seconds on real images …
from .features.extract import embed as embed  # the dataset seen through the backbone, from the cache when it was …
from .features.extract import embed_rows as embed_rows  # only some images of a dataset seen through a backbone
from .features.extract import estimate_embedding as estimate_embedding  # what `embed` would take, measured by a …
from .features import Features as Features  # N images of C classes as d numbers each
from .features import claim_features as claim_features  # UserError unless features may be written to `out` …
from .features.lookup import grown_arrays as grown_arrays  # what all places of the cache hold of a view (32 hex …
from .features.lookup import Content as Content  # a dataset's images as they were when they were looked at
from .features.lookup import check_made_from as check_made_from  # UserError where features were made from other …
from .features.lookup import content_of as content_of  # what a dataset is made of now
from .features.pixels_cache import Describe as Describe  # Images and positions of a shard → their values
from .features.pixels_cache import cached_pixels as cached_pixels  # bytes [N, H, W, 3] of all images of a dataset
from .features.pixels_cache import read_shards as read_shards  # read numbers off images, shard by shard
from .features.pixels_cache import row_positions as row_positions  # [total] where each row of a dataset lies among …
from .features.suspects import SUSPECT_ODDS as SUSPECT_ODDS  # another class is so many times as probable as the label
from .features.suspects import Suspects as Suspects  # the suspected images of a dataset seen through one backbone …
from .features.suspects import joint_suspects as joint_suspects  # the images that any of several backbones suspects
from .features.suspects import suspects_of as suspects_of  # which images of a dataset are suspected, by its …
from .methods import MethodLike as MethodLike  # whatever serves as a method: a name, a function, a classifier, …
from .methods import VARIANTS as VARIANTS  # methods as the authors of a paper ran them
from .methods import feature_method as feature_method  # `get_method` where only features are at hand
from .methods import find_variant as find_variant  # the variant called `name`
from .methods import get_method as get_method  # a method from its call
from .methods import image_method_names as image_method_names  # names of the registered methods that need …
from .methods import is_own_method as is_own_method  # whether `name` (before any parenthesis) points to a …
from .methods import list_methods as list_methods  # the methods that learn from a support set
from .methods import method_class as method_class  # the class registered under `name`
from .methods import method_names as method_names  # names of the registered methods on features, sorted
from .methods import variant_methods as variant_methods  # the methods in a variant's settings
from .methods import variant_of as variant_of  # the variant whose settings `method` has, however they were …
from .methods.base import AnyMethod as AnyMethod  # what all methods have in common
from .methods.base import ImageMethod as ImageMethod  # a way to classify queries that sees images and the network …
from .methods.base import LOWEST as LOWEST  # the score of a class without support
from .methods.base import Method as Method  # a way to classify queries from a support set by their features, over a …
from .methods.base import mask_absent as mask_absent  # scores with LOWEST where a class has no support
from .methods.batching import Gatherer as Gatherer  # Reads rows of one or several features arrays (side by side) …
from .methods.batching import accuracies as accuracies  # share of each task's queries that a method gets right, [T]
from .methods.batching import advise_access as advise_access  # tell the system how a memory-mapped array will be read
from .methods.batching import batches as batches  # tasks of similar size together as padded tensors
from .methods.batching import bytes_per_task as bytes_per_task  # memory of one task in a batch
from .methods.image_method_checks import IMAGE_CHECKS as IMAGE_CHECKS  # the common test of methods that need …
from .methods.image_method_checks import IMAGE_TOLERANCE as IMAGE_TOLERANCE  # relative, of scores
from .methods.image_method_checks import SmallNetwork as SmallNetwork  # Patches, one block of attention, a batch norm
from .methods.image_method_checks import make_task as make_task  # a task of noisy pictures
from .methods.image_method_checks import run_image_checks as run_image_checks  # run it
from .methods.image_method_checks import run_image_method as run_image_method  # scores per task, their shapes checked
from .methods.meta_trained import CTX_KEY as CTX_KEY  # name among a network's extras
from .methods.meta_trained import CTX_VALUE as CTX_VALUE  # name among a network's extras
from .methods.finetune_network import FinetuneAll as FinetuneAll  # fine-tunes a whole network on every support set
from .methods.meta_trained import ctx_heads as ctx_heads  # keys and values of the places of maps
from .methods.meta_trained import ctx_scores as ctx_scores  # scores [Q, way] of CrossTransformers
from .methods.method_checks import CHECKS as CHECKS  # the common test of methods on features: name → what it asks
from .methods.method_checks import World as World  # Features [classes · per_class, dim] of overlapping clouds …
from .methods.method_checks import run_checks as run_checks  # run it
from .methods.method_checks import task_rows as task_rows  # the tasks as an evaluation has them
from .methods.metric_methods import ProtoNet as ProtoNet  # scores by distance to class means
from .methods.task_parameters import restart_layers as restart_layers  # draw new weights as PyTorch starts layers
from .methods.transport import metadelta_decode as metadelta_decode  # MetaDelta++'s decoder of one task
from .networks import ALIASES as ALIASES  # networks by the names that papers give them
from .networks import get_network as get_network  # a trainable network in training mode, on the CPU
from .networks import is_own_network as is_own_network  # whether `call` builds one of Longshot's own …
from .networks import network_class as network_class  # the class registered under `name`
from .networks.base import Ensemble as Ensemble  # [√w₁ v₁/‖v₁‖, √w₂ v₂/‖v₂‖, …]
from .networks.base import Network as Network  # Images [B, 3, H, W] → vectors [B, dim], by way of maps [B, dim, h, w]
from .networks.base import count_flops as count_flops  # Floating-point operations (a multiply-add is two) of …
from .networks.base import count_parameters as count_parameters  # numbers that training may change
from .networks.base import last_stages as last_stages  # the blocks of the last `count` stages of a network, in …
from .networks.checkpoint import SIDECAR_FILE as SIDECAR_FILE  # the name of the facts beside them
from .networks.checkpoint import WEIGHTS_FILE as WEIGHTS_FILE  # the name of a saved network's weights
from .networks.checkpoint import convert_checkpoint as convert_checkpoint  # published weights as a saved network
from .networks.checkpoint import load_checkpoint as load_checkpoint  # read a saved network
from .networks.checkpoint import read_sidecar as read_sidecar  # the JSON beside the weights at `path`
from .networks.checkpoint import save_checkpoint as save_checkpoint  # write one
from .networks.checkpoint import weights_file as weights_file  # the .safetensors in a folder, or the path of one
from .networks.fixed_norms import prepare_fixed_norms as prepare_fixed_norms  # rewrite a network for gradient steps
from .networks.fixed_norms import trainable_copy as trainable_copy  # a copy whose parameters take gradients …
from .networks.inner import HeadStart as HeadStart  # how the head of an inner loop starts
from .networks.inner import InnerLoop as InnerLoop  # what an inner loop does
from .networks.inner import LEARNED_HEAD as LEARNED_HEAD  # name among a network's extras
from .networks.inner import Moves as Moves  # what an inner loop moves
from .networks.inner import has_batch_norm as has_batch_norm  # whether some layer normalises over the images of a …
from .networks.inner import loop_weights as loop_weights  # the weights that an inner loop starts from
from .networks.inner import private_copy as private_copy  # a copy of the modules around the same weights, in …
from .networks.inner import query_logits as query_logits  # [E, Q, way] logits of the queries after every task's own …
from .networks.inner import tasks_at_once as tasks_at_once  # how many tasks are best computed side by side
from .methods.base import leaves_open as leaves_open  # Whether a method has settings to choose before its first task
from .backbones import adaptable as adaptable  # A backbone as a network that methods can adapt
from .backbones import backbone_parts as backbone_parts  # `"pixels + efficientnet-lite0"` → its backbones
from .backbones import backbone_name as backbone_name  # The canonical name of one or several backbones side by side
