"""What other rooms may use of this one, a line each."""

from .copies import COPY_RULES as COPY_RULES  # what may be done about copies
from .copies import CopyGroups as CopyGroups  # Which images of a dataset are copies of each other
from .copies import copy_groups as copy_groups  # Find the groups of copies within a dataset
from .copies import equal_groups as equal_groups  # The groups of equal values
from .copies import find_copies as find_copies  # The groups of images that a rule keeps apart
from .copies import say_copies as say_copies  # How many images are copies, in words
from .dataset_sheet import DatasetSheet as DatasetSheet  # What there is to see in a dataset
from .dataset_sheet import show_dataset as show_dataset  # Look at a dataset: classes, sizes, copies, odd images
from .decisions import REVIEW_ENDING as REVIEW_ENDING  # of the file beside a dataset
from .decisions import ImageVerdict as ImageVerdict  # keep or drop
from .decisions import decide_images as decide_images  # Store one decision about some images, over any earlier one
from .decisions import decided_rows as decided_rows  # Mark the images that a person keeps, and drops
from .decisions import read_decisions as read_decisions  # Return key → verdict of the images decided about
from .decisions import reviewed as reviewed  # Return suspects without the images that a person keeps
from .decisions import review_file as review_file  # Return where the decisions about a dataset are stored
from .decisions import undo_decisions as undo_decisions  # Take decisions back
from .find import View as View  # A dataset without what it shares with another
from .find import find_overlap as find_overlap  # Find images and classes that two datasets share
from .find import find_suspects as find_suspects  # Find images whose label looks wrong, and images that are copies …
from .find import leave_out_overlap as leave_out_overlap  # Write `dataset` without what an overlap file says it …
from .find import pair_images as pair_images  # `images(side, keys)` for a page with pictures
from .decisions import Review as Review  # What is doubtful in a dataset, and what was decided
from .decisions import review_dataset as review_dataset  # List doubtful labels and copies, or decide about them
from .record import Overlap as Overlap  # What two datasets share
