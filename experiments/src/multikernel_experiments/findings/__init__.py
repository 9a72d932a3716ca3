"""What experiments find: verdicts on claims, figures and tables, one module a subject.

A protocol declares what is run; what is read off its results is here, with keys, settings and bounds as arguments, so
that protocols share it. `verdicts` has claims and the words for how far they hold, `drawing` what all figures have in
common, `significance` the tests.
"""
