"""The hyper-adversarial attack: finds witnesses by gradient ascent and search of linear regions.

Nothing is imported here: linear programs need some of it, and many a search ends before an attack.
"""
