"""MammothModa2's transformer on a GPU: where its time goes, and how exact its attention is."""
