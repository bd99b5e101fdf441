"""Newton's method with Jacobians and Hessians, by `autograd.functional` and by `func`."""

import gradwalk as torch
from gradwalk.autograd.functional import hessian, jacobian, vjp
from gradwalk.func import grad, jacfwd, jacrev
from gradwalk.func import hessian as func_hessian


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


x = torch.tensor([-1.2, 1.0, 0.5], dtype=torch.float64)
for step in range(12):
    slope, curvature = jacobian(rosenbrock, x), hessian(rosenbrock, x)
    x = x - torch.linalg.solve(curvature, slope)
    print(f"step {step + 1}: f {rosenbrock(x).item():.3e}, |gradient| {slope.norm().item():.3e}")

print("minimum", x.tolist())
print("equal Hessians", torch.allclose(hessian(rosenbrock, x), func_hessian(rosenbrock)(x)))
print("gradient", grad(rosenbrock)(x + 0.1).tolist())


def polar(p):
    return torch.stack([p[0] * torch.cos(p[1]), p[0] * torch.sin(p[1])])


at = torch.tensor([2.0, 0.3], dtype=torch.float64)
print("determinant of polar coordinates", torch.linalg.det(jacrev(polar)(at)).item())
print("forward mode says the same", torch.allclose(jacrev(polar)(at), jacfwd(polar)(at)))
print("vector times Jacobian", vjp(polar, at, torch.ones(2, dtype=torch.float64))[1].tolist())
