"""What other rooms may use of this one, a line each."""

from .attribute_table import Composition as Composition  # One column over the tasks of one testbed
from .attribute_table import is_measured as is_measured  # Whether `measured_pixels` takes everything from the cache
from .attribute_table import measure_attributes as measure_attributes  # The attributes of a dataset's images
from .explanation import Explanation as Explanation  # A testbed explained
from .explanation import explain as explain  # Say in what the supports of a testbed differ from its queries, beyond …
from .explanation import explain_testbed as explain_testbed  # Explain every task of one testbed
from .explanation_page import attraction_sentences as attraction_sentences  # Which class's support draws queries
from .explanation_page import composition_sheet as composition_sheet  # What supports and queries consist of
from .explanation_page import say_correlation as say_correlation  # `−0.41 [−0.52, −0.28]`
from .folder_check import FolderCheck as FolderCheck  # What `check` tells about a folder
from .folder_check import check as check  # Check a folder of images: how well networks tell its classes apart
from .shift_costs import suggest_attributes as suggest_attributes  # Attributes by what a shift in them costs
