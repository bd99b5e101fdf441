"""Matrix products with an epilogue, as register-tiled kernels.

layout: structure and sizes of a product, and how it is cut up
kernel: the kernel of one structure: its entry and its epilogue
driver: what all of them share: threads, panels, tiles
packing, tile: a panel of b made contiguous; the sums in registers
"""
