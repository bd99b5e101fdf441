"""Sentences of several lengths: padded, packed, through a bidirectional LSTM and a GRU."""

import gradwalk as torch
from gradwalk import nn
from gradwalk.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(0)
lengths = torch.tensor([7, 5, 5, 3, 2])
sentences = [torch.randint(1, 10, (n,)) for n in lengths.tolist()]
padded = pad_sequence(sentences, batch_first=True)
labels = torch.tensor([s.sum().item() % 2 for s in sentences])


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 12, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(24, 6, num_layers=2, batch_first=True)
        self.head = nn.Linear(6, 2)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.words(tokens), lengths, batch_first=True)
        packed, _ = self.lstm(packed)
        packed, last = self.gru(packed)
        out, sizes = pad_packed_sequence(packed, batch_first=True)
        assert sizes.tolist() == lengths.tolist()
        return self.head(last[-1]), out


reader = Reader()
optimizer = torch.optim.RMSprop(reader.parameters(), lr=1e-2)
for step in range(20):
    scores, out = reader(padded, lengths)
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)(scores, labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(reader.parameters(), 0.5)
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step + 1}: loss {loss.item():.4f}")
print(tuple(out.shape), "padding stays zero:", out[4, 2:].abs().sum().item())
print("gradient of the padding word", reader.words.weight.grad[0].abs().sum().item())
