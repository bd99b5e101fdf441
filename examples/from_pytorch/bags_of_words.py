"""Topics from bags of words: EmbeddingBag with offsets, weights, and a linear layer."""

import gradwalk as torch
from gradwalk import nn
from gradwalk.utils.data import DataLoader, Dataset

torch.manual_seed(0)
TOPICS = [[1, 2, 3, 4], [4, 5, 6, 7], [7, 8, 9, 1]]


class Texts(Dataset):
    def __init__(self, n):
        self.topics = torch.randint(0, 3, (n,)).tolist()
        self.words = [
            [TOPICS[t][i] for i in torch.randint(0, 4, (2 + k % 4,)).tolist()]
            for k, t in enumerate(self.topics)
        ]

    def __len__(self):
        return len(self.topics)

    def __getitem__(self, i):
        return self.words[i], self.topics[i]


def collate(samples):
    words, topics = zip(*samples)
    starts = torch.tensor([0, *map(len, words[:-1])]).cumsum(0)
    return torch.tensor([word for text in words for word in text]), starts, torch.tensor(topics)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(10, 6, mode="mean")
        self.head = nn.Linear(6, 3)

    def forward(self, words, starts):
        return self.head(self.bag(words, starts))


model = Classifier()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.3)
for epoch in range(4):
    total = 0.0
    for words, starts, topics in DataLoader(Texts(48), batch_size=16, collate_fn=collate):
        loss = nn.functional.cross_entropy(model(words, starts), topics)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch + 1}: loss {total / 3:.4f}")
weighted = nn.functional.embedding_bag(
    torch.tensor([[1, 2], [3, 4]]),
    model.bag.weight,
    mode="sum",
    per_sample_weights=torch.tensor([[0.9, 0.1], [0.5, 0.5]]),
)
print(f"weighted {weighted.sum().item():.4f}")
