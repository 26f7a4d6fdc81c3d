"""Order statistics, reductions without NaN, histograms and covariance.

Imports the function modules of `tilewright.numpy`.
Start with `quantiles.py`.
"""
