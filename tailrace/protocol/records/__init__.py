"""Record batches: the bytes in which records travel and lie on disk, in every format Kafka ever had.

`batch_header` reads a batch without its records, `reader` its records, `writer` makes batches, `conversion` rewrites
them, `control` has the markers of transactions, `legacy` the message sets of before Kafka 0.11, `compression` the
codecs.
"""
