// What was kept of an array: statistics, a histogram, and on demand its elements as a heat map.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { general, shortNumber } from "../../engine/numbers";
import { theme } from "../../state/studio";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { type Kept, type Shape, shapeText } from "../../trace/description";
import { firstWindow, grid, smallWindow, type Window, windowAt } from "../../trace/source";
import { statisticsOf } from "../../trace/statistics";
import { signOf } from "../text";

const mostInTable = 6; // rows and columns of an array that is shown in figures

/** `what` names it for screen readers and tests: value, gradient, pushed. */
export function TensorView({ kept, title, what }: { kept: Kept; title: string; what: string }) {
  const statistics = statisticsOf(kept);
  const { nans, infs, zeros } = statistics;
  const single = kept.elements?.length === 1;
  return (
    <section class="tensor" data-tensor={what}>
      <h4>
        {title}{" "}
        <span class="fact" translate={false}>
          {shapeText(kept.shape)} {kept.dtype}
        </span>
      </h4>
      {single ? (
        <p class={`single ${signOf(kept.elements![0]!)}`} data-number={kept.elements![0]}>
          {shortNumber(kept.elements![0]!)}
        </p>
      ) : (
        <>
          <dl class="statistics">
            {(["norm", "mean", "std", "low", "high"] as const).map((name) => (
              <div key={name}>
                <dt>{say(`trace.${name}`)}</dt>
                <dd data-statistic={name} data-number={statistics[name]}>
                  {shortNumber(statistics[name])}
                </dd>
              </div>
            ))}
            {zeros > 0 && (
              <div>
                <dt>{say("trace.zeros")}</dt>
                <dd>{share(zeros, statistics.count)}</dd>
              </div>
            )}
            {nans > 0 && (
              <div class="broken">
                <dt>NaN</dt>
                <dd>{share(nans, statistics.count)}</dd>
              </div>
            )}
            {infs > 0 && (
              <div class="broken">
                <dt>Inf</dt>
                <dd>{share(infs, statistics.count)}</dd>
              </div>
            )}
          </dl>
          <Histogram counts={statistics.histogram} low={statistics.low} high={statistics.high} />
          <Elements key={kept} kept={kept} title={title} />
        </>
      )}
    </section>
  );
}

function share(part: number, count: number): string {
  return part === count ? String(part) : `${part} (${general((100 * part) / count, 3)} %)`;
}

function Histogram({ counts, low, high }: { counts: number[]; low: number; high: number }) {
  if (!counts.length) return null;
  const most = Math.max(...counts, 1);
  const bars = counts.map(
    (count, i) => `M${i * 10 + 1} 40v${-Math.max((38 * count) / most, count ? 1 : 0)}h8V40z`,
  );
  const zero = low < 0 && high > 0 ? (-low / (high - low)) * counts.length * 10 : undefined;
  return (
    <figure class="histogram">
      <svg
        viewBox={`0 0 ${counts.length * 10} 40`}
        preserveAspectRatio="none"
        role="img"
        aria-label={say("trace.histogram", { counts: counts.join(", ") })}
        data-histogram={counts.join(",")}
      >
        <path class="bars" d={bars.join("")} />
        {zero !== undefined && <path class="zero" d={`M${zero} 0V40`} />}
      </svg>
      <figcaption>
        <span>{shortNumber(low)}</span>
        <span>{shortNumber(high)}</span>
      </figcaption>
    </figure>
  );
}

/** The numbers themselves: at once if they are here, else when asked for. */
function Elements({ kept, title }: { kept: Kept; title: string }) {
  const shown = useSignal(false);
  const here = kept.elements !== undefined;
  if (!here && !kept.array) {
    return kept.thumbnail ? (
      <Thumbnail thumbnail={kept.thumbnail} />
    ) : (
      <p class="hint">{say("trace.notKept")}</p>
    );
  }
  if (!here && !shown.value) {
    return (
      <p>
        <button type="button" onClick={() => (shown.value = true)} data-show-elements>
          {say("trace.showElements")}
        </button>
      </p>
    );
  }
  return <Slices kept={kept} title={title} />;
}

function Thumbnail({
  thumbnail: { shape, elements },
}: {
  thumbnail: { shape: Shape; elements: number[] };
}) {
  const kept = { shape, elements, dtype: "" };
  return (
    <>
      <HeatMap
        values={smallWindow(kept, firstWindow(shape))}
        window={firstWindow(shape)}
        title={say("trace.thumbnail")}
      />
      <p class="hint">{say("trace.onlyThumbnail")}</p>
    </>
  );
}

function Slices({ kept, title }: { kept: Kept; title: string }) {
  const window = useSignal<Window>(firstWindow(kept.shape));
  // Numbers with the window they are of: another may be asked for already.
  const shown = useSignal<{ values: number[][]; window: Window } | null>(null);
  const failure = useSignal("");
  useEffect(() => {
    const asked = window.value;
    let wanted = true;
    const found = kept.elements
      ? Promise.resolve(smallWindow(kept, asked))
      : stage.document.value!.arrays.read(kept, asked);
    found.then(
      (values) => {
        if (wanted) [shown.value, failure.value] = [{ values, window: asked }, ""];
      },
      (error: Error) => {
        if (wanted) failure.value = say("trace.unreadable", { error: error.message });
      },
    );
    return () => {
      wanted = false;
    };
  }, [kept, window.value]);
  const { at, rows, columns } = window.value;
  const [allRows, allColumns] = grid(kept.shape);
  // Two changes may come before the next drawing: the second builds on the first.
  const go = (dimension: number, to: number): void => {
    const now = window.peek();
    const place = [...now.at, now.rows[0], now.columns[0]].map((old, i) =>
      i === dimension ? to : old,
    );
    window.value = windowAt(kept.shape, place.slice(0, -2), place.at(-2)!, place.at(-1)!);
  };
  return (
    <>
      <div class="slices">
        {at.map((index, dimension) => (
          <Chooser
            key={dimension}
            label={say("trace.dimension", { number: dimension })}
            value={index}
            most={kept.shape[dimension]! - 1}
            choose={(to) => go(dimension, to)}
          />
        ))}
        {rows[1] - rows[0] < allRows && (
          <Chooser
            label={say("trace.fromRow")}
            value={rows[0]}
            most={allRows - 1}
            choose={(row) => go(at.length, row)}
          />
        )}
        {columns[1] - columns[0] < allColumns && (
          <Chooser
            label={say("trace.fromColumn")}
            value={columns[0]}
            most={allColumns - 1}
            choose={(column) => go(at.length + 1, column)}
          />
        )}
      </div>
      {failure.value && (
        <p class="mistake" role="alert">
          {failure.value}
        </p>
      )}
      {shown.value &&
        (allRows <= mostInTable && allColumns <= mostInTable ? (
          <Figures values={shown.value.values} title={title} />
        ) : (
          <HeatMap {...shown.value} title={title} />
        ))}
    </>
  );
}

function Chooser(props: {
  label: string;
  value: number;
  most: number;
  choose: (value: number) => void;
}) {
  return (
    <label>
      <span>{props.label}</span>
      <input
        type="number"
        min={0}
        max={props.most}
        value={props.value}
        onInput={(event) => {
          // At once: what is only typed would be lost when something else draws this again.
          const asked = event.currentTarget.valueAsNumber;
          if (asked >= 0) props.choose(Math.min(Math.trunc(asked), props.most));
        }}
      />
    </label>
  );
}

/** A small matrix in figures. */
function Figures({ values, title }: { values: number[][]; title: string }) {
  return (
    <div class="scroll figures" tabindex={0} role="group" aria-label={title}>
      <table>
        <tbody>
          {values.map((row, i) => (
            <tr key={i}>
              {row.map((number, j) => (
                <td key={j} class={signOf(number)} data-number={number}>
                  {shortNumber(number)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** One square for a number; arrow keys and the mouse tell which number it is. */
function HeatMap({ values, window, title }: { values: number[][]; window: Window; title: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const cell = useSignal<[row: number, column: number]>([0, 0]);
  const height = values.length;
  const width = values[0]?.length ?? 0;
  const [row, column] = [Math.min(cell.value[0], height - 1), Math.min(cell.value[1], width - 1)];
  useEffect(() => paint(canvas.current!, values), [values, theme.value]);
  if (!width) return <p class="hint">{say("trace.noElements")}</p>;
  const number = values[row]![column]!;
  const place = [...window.at, window.rows[0] + row, window.columns[0] + column].join(", ");
  const point = (event: PointerEvent): void => {
    const { left, top, width: wide, height: high } = canvas.current!.getBoundingClientRect();
    const clamp = (part: number, size: number): number =>
      Math.max(0, Math.min(size - 1, Math.floor(part * size)));
    cell.value = [
      clamp((event.clientY - top) / high, height),
      clamp((event.clientX - left) / wide, width),
    ];
  };
  const move = (event: KeyboardEvent): void => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[
      event.key
    ];
    if (!by) return;
    event.preventDefault();
    cell.value = [
      Math.max(0, Math.min(height - 1, row + by[0]!)),
      Math.max(0, Math.min(width - 1, column + by[1]!)),
    ];
  };
  return (
    <div class="heat">
      <canvas
        ref={canvas}
        width={width}
        height={height}
        style={{ aspectRatio: `${width} / ${Math.max(height, width / 12)}` }}
        tabindex={0}
        data-arrows
        role="application"
        aria-label={say("trace.heat", { title, rows: height, columns: width })}
        aria-describedby="heat-cell"
        onPointerMove={point}
        onPointerDown={point}
        onKeyDown={move}
      />
      <output
        id="heat-cell"
        class={signOf(number)}
        data-cell={`${row},${column}`}
        data-number={number}
        translate={false}
      >
        [{place}] = {general(number, 7).replaceAll("-", "−")}
      </output>
    </div>
  );
}

/** The colours are those of the page: the canvas has them as its own (60-trace.css). */
function paint(canvas: HTMLCanvasElement, values: number[][]): void {
  const context = canvas?.getContext("2d");
  if (!context || !values[0]?.length) return;
  const { color, borderBlockEndColor, outlineColor, backgroundColor } = getComputedStyle(canvas);
  const [positive, negative, broken, paper] = [
    color,
    borderBlockEndColor,
    outlineColor,
    backgroundColor,
  ].map((text) => (text.match(/[\d.]+/g) ?? []).map(Number)) as [
    number[],
    number[],
    number[],
    number[],
  ];
  const most = values
    .flat()
    .reduce((top, number) => (Number.isFinite(number) ? Math.max(top, Math.abs(number)) : top), 0);
  const image = context.createImageData(values[0].length, values.length);
  values.flat().forEach((number, i) => {
    const finite = Number.isFinite(number);
    const full = !finite ? broken : number < 0 ? negative : positive;
    const part = finite ? (most ? Math.sqrt(Math.abs(number) / most) : 0) : 1;
    for (let channel = 0; channel < 3; channel++) {
      image.data[4 * i + channel] = paper[channel]! + (full[channel]! - paper[channel]!) * part;
    }
    image.data[4 * i + 3] = 255;
  });
  context.putImageData(image, 0, 0);
}
