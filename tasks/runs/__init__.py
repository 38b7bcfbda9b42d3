"""Runs of internal kinds, in processes that can be ended: the loop in the worker, the children, and what they say.

`runner` claims, hands out, watches and settles, in the worker. `children` are its processes, forked by `forks` from a
template that has Django loaded and nothing else. `child` is what goes on in one of them. What passes between them is
`words`, over a pipe whose end is also the end of the child.
"""
