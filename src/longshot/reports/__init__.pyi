"""What other rooms may use of this one, a line each."""

from . import charts as charts  # The plots of the statistics
from . import frame as frame  # What every page is made with
from .charts import EstimateRow as EstimateRow  # An estimate with its interval, in the unit of the axis
from .charts import intervals as intervals  # One row per estimate
from .charts import percent_axis as percent_axis
from .data_pages import render_overlap as render_overlap  # The page as one text without any reference to another …
from .data_pages import render_testbed as render_testbed  # The page of a testbed as one text without any …
from .data_pages import testbed_sections as testbed_sections  # All sections but the pictures
from .frame import Section as Section  # One part of a page
from .frame import bed_facts as bed_facts  # What the head of a page says about a testbed
from .frame import environment as environment  # Templates that escape all they are given
from .frame import write_page as write_page  # A page as one text without any reference to another file
from .learning_curves import folder_curves as folder_curves  # Draw the curves of one training as `curves.svg` in …
from .learning_curves import read_trainings as read_trainings  # The histories in the folders, named after them
from .page import SECTIONS as SECTIONS
from .page import make_request as make_request  # What the sections are made from, with every pair of series compared
from .page import training_section as training_section  # The curves of at least one training
from .paper_tables import way_head as way_head  # `5-shot top-1`
from .paper_tables import way_metrics as way_metrics  # What is shown for a number of ways
from .pictures import FindImages as FindImages
from .pictures import MAX_QUERY as MAX_QUERY  # What one task may show
from .pictures import MAX_SUPPORT as MAX_SUPPORT  # What one task may show
from .pictures import Thumbnail as Thumbnail  # A thumbnail as a data URI
from .pictures import albums as albums  # One album per testbed
from .pictures import class_names as class_names  # The last part of each id, or whole ids where last parts repeat
from .pictures import thumbnail as thumbnail  # The middle square of an image as a small WebP data URI
from .published import PublishedNumber as PublishedNumber  # One printed number, as a share (0 … 1)
from .published import published as published  # The numbers of one paper
from .report import claim_report as claim_report  # The format of a report that is to be written to `out`
from .report import render as render  # The report as text
from .report_data import Runs as Runs
from .report_data import read_runs as read_runs  # Read runs and arrange them
from .sections.mistakes import top_classes as top_classes  # The classes with the most mistakes, of either …
from .summary import column_marks as column_marks  # Marks of M series on the same T tasks alone, [T, M]
from .svg import INK as INK  # 010101", "#020202", "#030303", "#fefefe"
from .svg import LIGHT as LIGHT  # For files of their own
from .svg import SERIES as SERIES  # 0000{10 + i:02x}" for i in range(COLOURS)]
from .svg import WIDTH as WIDTH  # drawing units
from .svg import marker as marker  # Matplotlib's marker of a series
from .svg import new_axes as new_axes  # Axes inside `margins` in drawing units
from .svg import new_figure as new_figure  # A figure of `width × height` units under the report's settings
from .svg import save_figure as save_figure  # Write a figure as its ending says, without a date
from .svg import shorten as shorten  # Cut the middle out of long text
from .svg import to_svg as to_svg  # The figure as an `<svg>` element for a page
from .tables import Sheet as Sheet  # A table to read
from .tables import SheetCell as SheetCell  # One text of a table
from .tables import escape_markdown as escape_markdown  # Text that Markdown shows as it is
from .tables import heads as heads  # Heads of columns, under `group` where there is one
from .tables import markdown as markdown  # A GitHub-flavoured table under its title
from .tables import percent as percent  # A share as a percentage
from .tables import row as row  # A row of a table
from .tables import to_csv as to_csv  # Records of the same keys as CSV
from .tables import to_latex as to_latex  # Several tables in one LaTeX text
from .testbed_plots import Cloud as Cloud  # One point per task
from .testbed_plots import DivergenceSeries as DivergenceSeries  # Accuracy (shares) at n divergences with intervals
from .testbed_plots import HardnessPoint as HardnessPoint  # A split on two axes, as shares, each with half its interval
from .testbed_plots import PALETTE as PALETTE
from .testbed_plots import SETS as SETS  # sets of classes keep theirs everywhere
from .testbed_plots import SplitPanel as SplitPanel  # One split of the C classes
from .testbed_plots import accuracy_by_divergence as accuracy_by_divergence  # Mean accuracy with its interval at each …
from .testbed_plots import class_map as class_map  # Classes in the plane of their first two principal components …
from .testbed_plots import clouds as clouds  # Accuracy of single tasks against a divergence, a picture per cloud …
from .testbed_plots import hardness_map as hardness_map  # Splits by class similarity (frozen accuracy of the test …
