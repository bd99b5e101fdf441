"""REINFORCE on a corridor: `Categorical` samples actions, `log_prob` gives the gradient."""

import gradwalk as torch
from gradwalk import nn
from gradwalk.distributions import Categorical

torch.manual_seed(0)
LENGTH = 6
policy = nn.Sequential(nn.Embedding(LENGTH, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)

for episode in range(60):
    place, scores, rewards = 0, [], []
    for _ in range(20):
        choice = Categorical(logits=policy(torch.tensor(place)))
        action = choice.sample()
        scores.append(choice.log_prob(action))
        place = max(0, place + (1 if action.item() == 1 else -1))
        rewards.append(1.0 if place == LENGTH - 1 else -0.05)
        if place == LENGTH - 1:
            break
    returns, following = [], 0.0
    for reward in reversed(rewards):
        following = reward + 0.95 * following
        returns.insert(0, following)
    returns = torch.tensor(returns)
    loss = -(torch.stack(scores) * (returns - returns.mean())).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if episode % 20 == 19:
        unsure = Categorical(logits=policy(torch.arange(LENGTH))).entropy().mean()
        print(f"episode {episode + 1}: {len(rewards)} moves, entropy {unsure.item():.4f}")
print("chance to go right", torch.softmax(policy(torch.arange(LENGTH)), dim=-1)[:, 1].tolist())
