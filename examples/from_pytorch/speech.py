"""Labels without alignment: a convolution, a GRU and CTC, decoded greedily."""

import gradwalk as torch
from gradwalk import nn

torch.manual_seed(0)
TIME, BATCH, LETTERS = 20, 4, 5  # letter 0 is the blank
targets = torch.randint(1, LETTERS, (BATCH, 4))
lengths = torch.tensor([4, 3, 2, 4])
sound = torch.randn(BATCH, 6, TIME) * 0.1
for i in range(BATCH):
    for j in range(lengths[i]):
        sound[i, targets[i, j], 5 * j : 5 * j + 4] += 1.0


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Conv1d(6, 16, 3, padding=1)
        self.gru = nn.GRU(16, 16)
        self.head = nn.Linear(16, LETTERS)

    def forward(self, x):
        x = self.front(x).relu().permute(2, 0, 1)
        return self.head(self.gru(x)[0]).log_softmax(-1)


model = Listener()
ctc = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=60)
for step in range(60):
    loss = ctc(model(sound), targets, torch.full((BATCH,), TIME), lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 20 == 19:
        print(f"step {step + 1}: loss {loss.item():.3f}, rate {schedule.get_last_lr()[0]:.2e}")
for path, target, n in zip(model(sound).argmax(-1).T, targets, lengths):
    letters = torch.unique_consecutive(path)
    print("heard", letters[letters != 0].tolist(), "said", target[:n].tolist())
