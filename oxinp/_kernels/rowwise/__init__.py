"""Row-wise chains: reductions along rows and what is made of them with the rows' own elements, in one launch."""
