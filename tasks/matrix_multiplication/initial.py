"""Products of sums of entries from which the product of two matrices can be put together."""


# EVOLVE-BLOCK-START
def products(n, m, p):
    a = [[1, 0, 0, 1], [0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 1]]
    a = [*a, [1, 1, 0, 0], [-1, 0, 1, 0], [0, 1, 0, -1]]
    b = [[1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, -1], [-1, 0, 1, 0]]
    b = [*b, [0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]]
    c = [[1, 0, 0, 1], [0, 0, 1, -1], [0, 1, 0, 1], [1, 0, 1, 0]]
    c = [*c, [-1, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    pieces = []
    for j in range(0, m - 1, 2):
        for k in range(0, p - 1, 2):
            corner = (0, j, k)
            pieces.append((a, b, c, corner))
    return pieces


# EVOLVE-BLOCK-END
