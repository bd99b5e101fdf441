"""Matrix products with an epilogue, as register-tiled kernels.

sizes: structure and sizes of a product, and how it is cut up
epilogue: what is done to every vector of the product
driver: the kernel of one structure, and what all products share: threads, panels, tiles
tile: the sums in registers; a panel of b made contiguous
"""
