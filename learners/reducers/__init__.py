"""Rules by the names that configs use: `rule: median`.

With fields: `rule: {use: learners.reducers:TrimmedMean, trim: 2}`.
"""

from learners.reducers.rules import Mean, Median, TrimmedMean

mean = Mean()
median = Median()
trimmed_mean = TrimmedMean(trim=1)

__all__ = ["Mean", "Median", "TrimmedMean", "mean", "median", "trimmed_mean"]
