"""Search over HTTP: `trailforge serve-search` and its client.

    client = connect("http://127.0.0.1:8990")                    (`client.py`) a `Retriever`, for any thread and loop
    passages = await client.retrieve("Who directed …?", 5)

`/retrieve` takes and gives what Search-R1's server does, so that its trainers work against ours and our client against
theirs.
"""
