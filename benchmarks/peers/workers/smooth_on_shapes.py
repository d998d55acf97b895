"""u = sin(3x + 1) exp(y) cos(4xy) and its Laplacian, with NumPy or PyTorch."""


def smooth(x, y, library):
    return library.sin(3 * x + 1) * library.exp(y) * library.cos(4 * x * y)


def laplacian(x, y, library):
    s, c, e = library.sin(3 * x + 1), library.cos(3 * x + 1), library.exp(y)
    sine, cosine = library.sin(4 * x * y), library.cos(4 * x * y)
    along = -(9 + 16 * y**2) * s * cosine - 24 * y * c * sine
    return e * (along + s * ((1 - 16 * x**2) * cosine - 8 * x * sine))
