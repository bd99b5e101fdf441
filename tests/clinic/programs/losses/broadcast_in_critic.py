"""The critic of an actor-critic pair: values (N, 1) against returns (N,).

symptom: loss wrong
finds: broadcast
healthy: values = self.critic(states).flatten()
at: value_loss = F.smooth_l1_loss(values, returns)
"""

import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(4, 2)
        self.critic = nn.Linear(4, 1)

    def losses(self, states, actions, returns):
        logs = F.log_softmax(self.actor(states), dim=1)
        values = self.critic(states)  # sick
        value_loss = F.smooth_l1_loss(values, returns)
        advantage = (returns - values.detach().flatten()[: len(returns)]).detach()
        picked = logs.gather(1, actions[:, None]).squeeze(1)
        return value_loss - (picked * advantage).mean()


torch.manual_seed(0)
agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=0.01)
for episode in range(10):
    states, actions = torch.randn(20, 4), torch.randint(0, 2, (20,))
    optimizer.zero_grad()
    agent.losses(states, actions, torch.randn(20)).backward()
    optimizer.step()
