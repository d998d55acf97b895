"""An L-shaped domain: u = x^2 on its boundary, to ten digits next to the corner."""

import pann

room = pann.Polygon([(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)])
problem = pann.Problem(
    room,
    residual=lambda u: u.laplacian,
    conditions=[pann.Dirichlet(room.boundary, lambda x: x**2)],
    name="L-shaped room",
)
solution = pann.solve(problem)
print(solution)
print("u(0.99, 0.99):", solution(x=0.99, y=0.99))
print("u_x next to the corner:", solution.derivative({"x": 1}, x=-1e-6, y=1e-6))
print("energy:", solution.integrate(lambda u: u.x**2 + u.y**2))
solution.plot("room.png")
