"""A graph convolution network: a sparse, normalised adjacency matrix times dense features."""

import gradwalk as torch
from gradwalk import nn

torch.manual_seed(0)
N = 12
edges = (
    [(i, (i + 1) % 6) for i in range(6)] + [(6 + i, 6 + (i + 2) % 6) for i in range(6)] + [(0, 6)]
)
pairs = sorted({*edges, *((b, a) for a, b in edges), *((i, i) for i in range(N))})
indices = torch.tensor(pairs).t()
degree = torch.zeros(N).index_add_(0, indices[0], torch.ones(len(pairs)))
values = (degree[indices[0]] * degree[indices[1]]).rsqrt()
adjacency = torch.sparse_coo_tensor(indices, values, (N, N)).coalesce()
features, labels = torch.eye(N), torch.tensor([0] * 6 + [1] * 6)


class GraphConvolution(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inside, outside))
        self.bias = nn.Parameter(torch.zeros(outside))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adjacency):
        return torch.spmm(adjacency, torch.mm(x, self.weight)) + self.bias


first, second = GraphConvolution(N, 8), GraphConvolution(8, 2)
optimizer = torch.optim.Adam(
    [*first.parameters(), *second.parameters()], lr=0.05, weight_decay=5e-4
)
known = torch.tensor([1, 7])
for epoch in range(30):
    out = second(torch.relu(first(features, adjacency)), adjacency).log_softmax(dim=1)
    loss = nn.functional.nll_loss(out[known], labels[known])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
print("right", (out.argmax(1) == labels).float().mean().item())
print(
    "dense agrees",
    torch.allclose(adjacency.to_dense() @ features, torch.sparse.mm(adjacency, features)),
)
