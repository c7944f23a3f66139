"""The published findings, replayed: does each still show in each of its runs, and under which settings?"""
