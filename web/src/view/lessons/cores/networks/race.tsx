// Three optimizers go down one valley, each with a learning rate of its own.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { general } from "../../../../engine/numbers";
import { say } from "../../../../state/words";
import type { CoreProps } from "../registry";
import { Slider } from "../slider";

type Point = [x: number, y: number];
type Optimizer = (rate: number) => (gradient: Point) => Point; // what is added to the point

/** A long valley: so many times as steep across as along. */
const steep = 16;
const height = ([x, y]: Point): number => 0.5 * (x * x + steep * y * y);
const slope = ([x, y]: Point): Point => [x, steep * y];
const start: Point = [-4, 1.2];
const arrived = 0.02;
export const steps = 60;

const optimizers: Record<string, Optimizer> = {
  sgd:
    (rate) =>
    ([x, y]) => [-rate * x, -rate * y],
  momentum: (rate) => {
    let speed: Point = [0, 0];
    return ([x, y]) => {
      speed = [0.9 * speed[0] + x, 0.9 * speed[1] + y];
      return [-rate * speed[0], -rate * speed[1]];
    };
  },
  adam: (rate) => {
    const [mean, square]: [Point, Point] = [
      [0, 0],
      [0, 0],
    ];
    let count = 0;
    return (gradient) => {
      count += 1;
      return gradient.map((g, i) => {
        mean[i] = 0.9 * mean[i]! + 0.1 * g;
        square[i] = 0.999 * square[i]! + 0.001 * g * g;
        const [m, v] = [mean[i]! / (1 - 0.9 ** count), square[i]! / (1 - 0.999 ** count)];
        return (-rate * m) / (Math.sqrt(v) + 1e-8);
      }) as Point;
    };
  },
};

/** Where it goes; it stops where it has arrived, or where it is lost. */
export function run(name: string, rate: number): { path: Point[]; arrivedAt: number } {
  const move = optimizers[name]!(rate);
  const path = [start];
  for (let step = 1; step <= steps; step++) {
    const [x, y] = path.at(-1)!;
    const [dx, dy] = move(slope([x, y]));
    path.push([x + dx, y + dy]);
    if (height(path.at(-1)!) < arrived) return { path, arrivedAt: step };
    if (height(path.at(-1)!) > 1e6) break;
  }
  return { path, arrivedAt: 0 };
}

export function Race({ finish }: CoreProps) {
  const powers = useSignal<Record<string, number>>({ sgd: -2, momentum: -3, adam: -2 });
  const names = Object.keys(optimizers);
  const found = names.map((name) => run(name, 10 ** powers.value[name]!));
  const all = found.every(({ arrivedAt }) => arrivedAt > 0);
  useEffect(() => {
    if (all) finish();
  }, [all]);
  return (
    <div class="beside">
      <Valley runs={found} />
      <div class="readings">
        {names.map((name, i) => {
          const { arrivedAt, path } = found[i]!;
          const lost = height(path.at(-1)!) > height(start);
          return (
            <div key={name} class={`racer racer-${i}`} data-racer={name} data-arrived={arrivedAt}>
              <strong>{say(`core.race.${name}`)}</strong>
              <Slider
                label={say("core.race.rate", { name: say(`core.race.${name}`) })}
                name="log₁₀ lr"
                from={-3}
                to={0.5}
                step={0.1}
                value={powers.value[name]!}
                onMove={(value) => (powers.value = { ...powers.value, [name]: value })}
              />
              <span>
                {arrivedAt
                  ? say("core.race.arrived", { count: arrivedAt })
                  : lost
                    ? say("core.race.lost")
                    : say("core.race.late", { height: general(height(path.at(-1)!), 3) })}
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Valley({ runs }: { runs: { path: Point[] }[] }) {
  const [wide, high] = [480, 300];
  const place = ([x, y]: Point): string => {
    const inside = (value: number, most: number): number => Math.max(-most, Math.min(most, value));
    return `${wide / 2 + inside(x, 20) * 52} ${high / 2 + inside(y, 8) * 100}`;
  };
  return (
    <svg class="plot" viewBox={`0 0 ${wide} ${high}`} role="img" aria-label={say("core.race.plot")}>
      <g aria-hidden="true">
        {[0.3, 1.5, 4, 8, 14, 22].map((level) => (
          <ellipse
            key={level}
            class="contour"
            cx={wide / 2}
            cy={high / 2}
            rx={Math.sqrt(2 * level) * 52}
            ry={Math.sqrt((2 * level) / steep) * 100}
          />
        ))}
        {runs.map(({ path }, i) => (
          <g key={i} class={`racer-${i}`}>
            <path class="way" d={`M${path.map(place).join("L")}`} />
            {path.slice(0, 61).map((point, step) => {
              const [cx, cy] = place(point).split(" ");
              return <circle key={step} cx={cx} cy={cy} r={step ? 2.4 : 5} />;
            })}
          </g>
        ))}
      </g>
    </svg>
  );
}
