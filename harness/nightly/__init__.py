"""The same faults every night on locks of every kind: what is new since yesterday, and are the broken ones caught?"""
