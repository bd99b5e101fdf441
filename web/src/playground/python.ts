// The playground's training as a Python program for gradwalk: it prints the losses that the page
// shows. Each block says in Python what data.ts, model.ts and train.ts do.

import { POINTS, type Settings } from "./settings";

const BOUNDS: Record<string, string> = {
  he: "math.sqrt(6 / inputs)",
  xavier: "math.sqrt(6 / (inputs + outputs))",
  small: "0.01",
  zero: "0",
  uniform: "1",
};

const SHAPES: Record<string, string> = {
  moons: `    x, y = math.cos(math.pi * t), math.sin(math.pi * t)
    x, y = (x - 0.5, y - 0.25) if first else (0.5 - x, 0.25 - y)`,
  circles: `    radius = 1 if first else 0.5
    x, y = radius * math.cos(2 * math.pi * t), radius * math.sin(2 * math.pi * t)`,
  spirals: `    angle = 4 * t + (0 if first else math.pi)
    x, y = 1.3 * t * math.cos(angle), 1.3 * t * math.sin(angle)`,
};

const ACTIVATIONS: Record<string, string> = {
  relu: "total.relu()",
  leaky_relu: "gradwalk.leaky_relu(total)",
  tanh: "total.tanh()",
  sigmoid: "total.sigmoid()",
};

export function pythonCode(settings: Settings, steps = 50): string {
  const { data, noise, seed, depth, width, init, batch, zero } = settings;
  const digits = data === "digits";
  const points = digits
    ? `images, digits = (t.tolist() for t in gradwalk.data.digits("train").tensors)
points = [(sum(image[0], []), digit) for image, digit in zip(images[:${POINTS}], digits)]`
    : `points = []
for i in range(${POINTS}):
    t, first = (i // 2) / ${POINTS / 2}, i % 2 == 0
${SHAPES[data]!}
    x, y = x + random.uniform(-${noise}, ${noise}), y + random.uniform(-${noise}, ${noise})
    points.append(([x, y], 1 if first else -1))`;
  const activation = ACTIVATIONS[settings.activation];
  return `import math
import random

import gradwalk
from gradwalk import Value

random.seed(${seed})

# The data: ${digits ? "images of 8 × 8 numbers, and their digits" : "points of two classes, +1 and −1"}.
${points}


class Neuron:
    def __init__(self, inputs, outputs):
        bound = ${BOUNDS[init]!}
        self.weights = [Value(random.uniform(-bound, bound)) for _ in range(inputs)]
        self.bias = Value(0)

    def __call__(self, x, hidden):
        total = self.bias
        for weight, value in zip(self.weights, x):
            total = total + weight * value
        return ${activation ? `${activation} if hidden else total` : "total"}


sizes = [${[digits ? 64 : 2, ...Array.from({ length: depth }, () => width), digits ? 10 : 1].join(", ")}]
layers = [[Neuron(n, m) for _ in range(m)] for n, m in zip(sizes, sizes[1:])]
parameters = [p for layer in layers for n in layer for p in (*n.weights, n.bias)]


def scores(x):
    for layer in layers:
        x = [neuron(x, hidden=layer is not layers[-1]) for neuron in layer]
    return x


def loss_of(x, y):
${
  digits
    ? `    s = scores(x)
    return sum(one.exp() for one in s).log() - s[y]`
    : `    (score,) = scores(x)
    return gradwalk.softplus(-(y * score))`
}


${optimizerState(settings)}order = []
for step in range(${steps}):
    if not order:
        order = list(range(${POINTS}))
        random.shuffle(order)
    batch, order = order[:${batch}], order[${batch}:]
    loss = sum(loss_of(*points[i]) for i in batch) * (1 / ${batch})
${zero ? "    for p in parameters:\n        p.grad = 0\n" : "    # zero_grad() is missing: gradients add up from step to step.\n"}\
    loss.backward()
${optimizerStep(settings)}
    print(step + 1, loss.data)
`;
}

function optimizerState({ optimizer }: Settings): string {
  if (optimizer === "momentum") return "speed = [0.0] * len(parameters)\n";
  if (optimizer !== "adam") return "";
  return `mean, square = [0.0] * len(parameters), [0.0] * len(parameters)
decay1 = decay2 = 1.0
`;
}

function optimizerStep({ optimizer, rate }: Settings): string {
  if (optimizer === "momentum") {
    return `    for i, p in enumerate(parameters):
        speed[i] = 0.9 * speed[i] + p.grad
        p.data -= ${rate} * speed[i]`;
  }
  if (optimizer === "adam") {
    return `    decay1, decay2 = decay1 * 0.9, decay2 * 0.999
    for i, p in enumerate(parameters):
        mean[i] = 0.9 * mean[i] + 0.1 * p.grad
        square[i] = 0.999 * square[i] + 0.001 * p.grad * p.grad
        size = math.sqrt(square[i] / (1 - decay2)) + 1e-8
        p.data -= ${rate} * (mean[i] / (1 - decay1)) / size`;
  }
  return `    for p in parameters:
        p.data -= ${rate} * p.grad`;
}
