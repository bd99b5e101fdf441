"""A step in bfloat16 under autocast, with the scaler that float16 would need."""

import gradwalk as torch
from gradwalk import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 1)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
inputs = torch.randn(128, 8, device=device)
targets = inputs.prod(dim=1, keepdim=True).tanh()

for step in range(20):
    with torch.autocast(device_type=device, dtype=torch.bfloat16):
        outputs = model(inputs)
        loss = nn.functional.mse_loss(outputs.float(), targets)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if step % 10 == 9:
        print(f"step {step + 1}: loss {loss.item():.2f}, norm {norm.item():.1f}")

print(outputs.dtype == torch.bfloat16, next(model.parameters()).dtype == torch.float32)
