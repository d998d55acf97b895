"""Heat in a plate with three holes: temperatures, the heat that leaves through each, files, VTK."""

import pann

plate = pann.Rectangle(x=(-1, 1), y=(-1, 1))
for name, center in {"hot": (-0.5, -0.4), "cold": (0.5, -0.4), "free": (0.0, 0.5)}.items():
    plate = plate - pann.Disk(center, radius=0.2).renamed(disk=name)
plate.plot("plate.png")

boundary = plate.boundary
sides = boundary["left", "right", "bottom", "top"]
problem = pann.Problem(
    plate,
    residual=lambda u: u.laplacian,
    conditions=[
        pann.Dirichlet(boundary["hot"], 1.0),
        pann.Dirichlet(boundary["cold"], 0.0),
        pann.Neumann(boundary["free"] + sides, 0.0),
    ],
    name="plate with three holes",
)
solution = pann.solve(problem)
print(solution)
flux = lambda u, nx, ny: u.x * nx + u.y * ny
for name in ("hot", "cold", "free"):
    print(f"heat through {name}: {solution.integrate(flux, over=name):.9f}")
print("mean temperature:", solution.integrate() / plate.area)
solution.plot("temperature.png")
solution.to_vtk("temperature.vtu")
solution.save("plate.pann")
loaded = pann.load("plate.pann")
print("from the file:", loaded(x=0.0, y=0.0), "in a hole:", loaded(x=0.0, y=0.5))
