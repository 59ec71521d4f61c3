"""What other rooms may use of this one, a line each."""

from . import charts as charts  # The plots of a report
from . import frame as frame  # What every page is made with
from .charts import EstimateRow as EstimateRow  # An estimate with its interval, in the unit of the axis
from .charts import intervals as intervals  # One row per estimate
from .charts import percent_axis as percent_axis  # Ticks of 0 to 100 %
from .result_tables import JUNIT_OPENING as JUNIT_OPENING  # What every file of JUnit's XML begins with
from .result_tables import changes_sheet as changes_sheet  # What became of every class from series A to series B
from .result_tables import compared_sheet as compared_sheet  # The table of a comparison of runs
from .result_tables import junit as junit  # Test cases as JUnit's XML
from .data_pages import render_overlap as render_overlap  # The page of what two datasets share
from .data_pages import render_testbed as render_testbed  # The page of a testbed
from .data_pages import testbed_sections as testbed_sections  # All sections but the pictures
from .frame import Section as Section  # One part of a page
from .frame import bed_facts as bed_facts  # What the head of a page says about a testbed
from .frame import environment as environment  # Templates that escape all they are given
from .frame import write_page as write_page  # A page as one text without any reference to another file
from .learning_curves import folder_curves as folder_curves  # Draw the curves of one training into its folder
from .learning_curves import read_trainings as read_trainings  # The histories in the folders, named after them
from .page import SECTIONS as SECTIONS  # The sections of a report, in their order
from .page import make_request as make_request  # What the sections are made from, with every pair of series compared
from .page import training_section as training_section  # The curves of at least one training
from .pictures import FindImages as FindImages  # (dataset, keys) → images
from .pictures import MAX_QUERY as MAX_QUERY  # Queries that one class of a task shows
from .pictures import MAX_SUPPORT as MAX_SUPPORT  # Support images that one class of a task shows
from .pictures import Thumbnail as Thumbnail  # A thumbnail as a data URI
from .pictures import albums as albums  # One album per testbed
from .pictures import class_names as class_names  # The last part of each id, or whole ids where last parts repeat
from .pictures import thumbnail as thumbnail  # The middle square of an image as a small WebP data URI
from .published import PublishedNumber as PublishedNumber  # One printed number, as a share (0 … 1)
from .published import published as published  # The numbers of one paper
from .report import claim_report as claim_report  # The format of a report that is to be written to `out`
from .report import render_report as render_report  # The report as text
from .report_data import Cell as Cell  # The task rows of one series on one testbed
from .report_data import ReportData as ReportData  # Everything a page or a table is made of
from .report_data import arrange as arrange  # Give every testbed a name and every series one place
from .report_data import Runs as Runs  # What may be given as the runs of a report
from .report_data import read_runs as read_runs  # Read runs and arrange them
from .sections.mistakes import top_classes as top_classes  # The classes with the most mistakes
from .sections.task_difficulty import bed_drops as bed_drops  # The drops of every series between two testbeds
from .sections.task_difficulty import reference as reference  # The testbed that drops are counted from
from .marks import MARK_RULE as MARK_RULE  # The rule for bold and ties, in one sentence
from .marks import JUDGE_RULE as JUDGE_RULE  # The rule for judges, in one sentence
from .marks import column_marks as column_marks  # Marks of M series on the same T tasks alone, [T, M]
from .marks import first_places as first_places  # Marks of one column, by the p values of its rows
from .marks import Placed as Placed  # A mark, why there is none, and the corrected p
from .marks import place_column as place_column  # The same with the reason where the highest has no mark
from .summary import Estimates as Estimates  # (bed, series) → its numbers
from .summary import summarise as summarise  # the estimate and mark of every series on every testbed
from .svg import INK as INK  # Stand-in for the colour of text
from .svg import LIGHT as LIGHT  # The light colours, for files of their own
from .svg import SERIES as SERIES  # Stand-ins for the colours of series
from .svg import WIDTH as WIDTH  # Drawing units of a plot
from .svg import marker as marker  # Matplotlib's marker of a series
from .svg import new_axes as new_axes  # Axes inside `margins` in drawing units
from .svg import new_figure as new_figure  # A figure of `width × height` units under the report's settings
from .svg import save_figure as save_figure  # Write a figure as its ending says, without a date
from .svg import shorten as shorten  # Cut the middle out of long text
from .svg import to_svg as to_svg  # The figure as an `<svg>` element for a page
from .tables import Sheet as Sheet  # A table to read
from .tables import SheetCell as SheetCell  # One text of a table
from .tables import heads as heads  # Heads of columns, under `group` where there is one
from .tables import markdown as markdown  # A GitHub-flavoured table under its title
from .tables import row as row  # A row of a table
from .tables import to_csv as to_csv  # Records of the same keys as CSV
from .tables import to_latex as to_latex  # Several tables in one LaTeX text
from .testbed_plots import Cloud as Cloud  # One point per task
from .testbed_plots import DivergenceSeries as DivergenceSeries  # Accuracy (shares) at n divergences with intervals
from .testbed_plots import PALETTE as PALETTE  # The colours of series in files
from .testbed_plots import SETS as SETS  # The colours of train, validation and test classes
from .testbed_plots import SplitPanel as SplitPanel  # One split of the C classes
from .testbed_plots import accuracy_by_divergence as accuracy_by_divergence  # Plot accuracies with their intervals
from .testbed_plots import class_map as class_map  # Plot classes in the plane, coloured by set
from .testbed_plots import clouds as clouds  # Plot accuracies of tasks against a divergence
from .result_tables import metrics_sheet as metrics_sheet  # The table of all metrics
from .result_tables import result_rows as result_rows  # A row for each testbed and series
from .result_tables import results_sheet as results_sheet  # The table of means: series × testbeds
from .result_tables import screen_sheet as screen_sheet  # The table of all metrics, for a terminal
from .tables import Column as Column  # A column of a table: head, what it shows of a row, and how
from .tables import arrow as arrow  # A table as columns of full precision
from .tables import make_sheet as make_sheet  # A table of declared columns
from .tables import part_cell as part_cell  # The cell `12 of 60`
from .tables import series_cell as series_cell  # The cell that names a series
from .tables import table_bytes as table_bytes  # Columns as CSV, Parquet or JSON
from .tables import terminal as terminal  # A table as text of 80 columns
from .summary import notable_half as notable_half  # Half an interval over classes, where it differs from that over …
