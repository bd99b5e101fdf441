"""Weights saved, loaded and shared: `save`, `load`, NumPy, DLPack, `swa_utils`."""

import os
import tempfile

import numpy as np

import gradwalk as torch
from gradwalk import nn
from gradwalk.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(0)
model = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True),
    2,
    enable_nested_tensor=False,
)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(2, 5, 8)
mask = nn.Transformer.generate_square_subsequent_mask(5)
for _ in range(5):
    loss = (model(x, mask=mask) - x.roll(1, 1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update_parameters(model)
print(f"loss {loss.item():.4f}")

path = os.path.join(tempfile.mkdtemp(), "encoder.pt")
torch.save(model.state_dict(), path)
read = torch.load(path, map_location="cpu", weights_only=True)
again = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True),
    2,
    enable_nested_tensor=False,
)
print(again.load_state_dict(read))
print("equal", torch.equal(model(x, mask=mask), again(x, mask=mask)))
print(f"average is {(average(x, mask=mask) - model(x, mask=mask)).abs().max().item():.4f} away")

array = np.arange(6, dtype=np.float32).reshape(2, 3)
shared = torch.from_numpy(array)
shared += 1
borrowed = np.from_dlpack(shared)
borrowed[0, 0] = 10
print(array.tolist(), torch.from_dlpack(borrowed).sum().item())
