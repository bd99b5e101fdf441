// What was kept of an array: statistics, a histogram, and on demand its elements as a heat map.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { general, shortNumber } from "../../engine/numbers";
import { type Element, isLit, looked, sameElement } from "../../state/elements";
import { theme } from "../../state/studio";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { type Kept, shapeText } from "../../trace/description";
import { grid, smallWindow, type Window, windowFrom } from "../../trace/source";
import { normOf, statisticsOf } from "../../trace/statistics";
import { Scroll } from "../parts";
import { signOf } from "../text";
import { Failure } from "./pieces";

const mostInTable = 6; // rows and columns of an array that is shown in figures

/** Which element of the drawing one of the array is: it can be looked at here, by keys too. */
type Naming = (index: number) => Element;

/** `what` names it for screen readers and tests: value, gradient, pushed. */
export function TensorView(props: { kept: Kept; title: string; what: string; element?: Naming }) {
  const { kept, title, what, element } = props;
  const statistics = statisticsOf(kept);
  const { low, high, histogram, count, zeros, nans, infs } = statistics;
  const single = kept.elements?.length === 1 ? kept.elements[0]! : undefined;
  // Of the finite elements; of what is not finite the norm of the rest would say little.
  const figures = { ...statistics, norm: normOf(kept)! };
  const counts = [
    [say("trace.zeros"), zeros],
    ["NaN", nans, "broken"],
    ["Inf", infs, "broken"],
  ] as const;
  return (
    <section class="tensor" data-tensor={what}>
      <h4>
        {title}{" "}
        <span class="fact" translate={false}>
          {shapeText(kept.shape)} {kept.dtype}
        </span>
      </h4>
      {single !== undefined ? (
        <p class={`single ${signOf(single)}`} data-number={single}>
          {shortNumber(single)}
        </p>
      ) : (
        <>
          <dl class="statistics">
            {(["norm", "mean", "std", "low", "high"] as const).map((name) => (
              <div key={name}>
                <dt>{say(`trace.${name}`)}</dt>
                <dd data-statistic={name} data-number={figures[name]}>
                  {shortNumber(figures[name])}
                </dd>
              </div>
            ))}
            {counts.map(
              ([name, part, classes]) =>
                part > 0 && (
                  <div key={name} class={classes}>
                    <dt>{name}</dt>
                    <dd>{share(part, count)}</dd>
                  </div>
                ),
            )}
          </dl>
          <Histogram counts={histogram} low={low} high={high} />
          <Elements key={kept} kept={kept} title={title} element={element} />
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
function Elements({ kept, title, element }: { kept: Kept; title: string; element?: Naming }) {
  const shown = useSignal(kept.elements !== undefined);
  const { thumbnail } = kept;
  if (shown.value) return <Slices kept={kept} title={title} element={element} />;
  if (kept.array) {
    return (
      <p>
        <button type="button" onClick={() => (shown.value = true)} data-show-elements>
          {say("trace.showElements")}
        </button>
      </p>
    );
  }
  if (!thumbnail) return <p class="hint">{say("trace.notKept")}</p>;
  const window = windowFrom(thumbnail.shape);
  const values = smallWindow(thumbnail, window);
  return (
    <>
      <HeatMap values={values} window={window} title={say("trace.thumbnail")} />
      <p class="hint">{say("trace.onlyThumbnail")}</p>
    </>
  );
}

function Slices({ kept, title, element }: { kept: Kept; title: string; element?: Naming }) {
  const window = useSignal<Window>(windowFrom(kept.shape));
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
  const matrix = kept.shape.length <= 2; // of others a slice is shown, whose elements count anew
  const whole = matrix && columns[1] - columns[0] === allColumns && rows[1] - rows[0] === allRows;
  const place = [...at, rows[0], columns[0]];
  // Of the last two dimensions only where not all of it is in the window.
  const choosers = place.map((value, i): [label: string, value: number, size: number] => {
    const last = i - at.length;
    if (last < 0) return [say("trace.dimension", { number: i }), value, kept.shape[i]!];
    const [start, stop] = last ? columns : rows;
    const size = last ? allColumns : allRows;
    const label = say(last ? "trace.fromColumn" : "trace.fromRow");
    return [label, value, stop - start < size ? size : 0];
  });
  // Two changes may come before the next drawing: the second builds on the first.
  const go = (dimension: number, to: number): void => {
    const now = window.peek();
    const wanted = [...now.at, now.rows[0], now.columns[0]];
    wanted[dimension] = to;
    window.value = windowFrom(kept.shape, wanted);
  };
  return (
    <>
      <div class="slices">
        {choosers.map(
          ([label, value, size], i) =>
            size > 0 && (
              <label key={i}>
                <span>{label}</span>
                <input
                  type="number"
                  min={0}
                  max={size - 1}
                  value={value}
                  onInput={(event) => {
                    // At once: what is only typed would be lost when this is drawn again.
                    const asked = event.currentTarget.valueAsNumber;
                    if (asked >= 0) go(i, Math.min(Math.trunc(asked), size - 1));
                  }}
                />
              </label>
            ),
        )}
      </div>
      <Failure text={failure.value} />
      {shown.value &&
        (allRows <= mostInTable && allColumns <= mostInTable ? (
          <Figures values={shown.value.values} title={title} element={matrix && element} />
        ) : (
          <HeatMap {...shown.value} title={title} element={whole && element} />
        ))}
    </>
  );
}

/** How far an arrow key goes, in rows and columns. */
const arrows: Record<string, [number, number] | undefined> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** A small matrix in figures. */
function Figures(props: { values: number[][]; title: string; element?: Naming | false }) {
  const { values, title, element } = props;
  const columns = values[0]?.length ?? 0;
  const naming = element || null;
  const index = (i: number, j: number): number => i * columns + j;
  const isAt = (i: number, j: number): boolean =>
    naming !== null && sameElement(looked.value, naming(index(i, j)));
  const state = (i: number, j: number): string =>
    isAt(i, j) ? " at" : naming && isLit(naming(index(i, j))) ? " lit" : "";
  const move = (event: KeyboardEvent): void => {
    const by = arrows[event.key];
    if (!by || !naming) return;
    event.preventDefault();
    const places = values.flatMap((row, i) => row.map((_, j): [number, number] => [i, j]));
    const [row, column] = places.find(([i, j]) => isAt(i, j)) ?? [-by[0], -by[1]];
    const inside = (place: number, size: number): number => Math.max(0, Math.min(size - 1, place));
    looked.value = naming(
      index(inside(row + by[0], values.length), inside(column + by[1], columns)),
    );
  };
  return (
    <Scroll class="figures" label={title} onKeyDown={move}>
      <table>
        <tbody>
          {values.map((row, i) => (
            <tr key={i}>
              {row.map((number, j) => (
                <td
                  key={j}
                  class={`${signOf(number)}${state(i, j)}`}
                  data-number={number}
                  onPointerEnter={naming ? () => (looked.value = naming(index(i, j))) : undefined}
                  onPointerLeave={naming ? () => (looked.value = null) : undefined}
                >
                  {shortNumber(number)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** One square for a number; arrow keys and the mouse tell which number it is. */
function HeatMap(props: {
  values: number[][];
  window: Window;
  title: string;
  element?: Naming | false;
}) {
  const { values, window, title, element } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const cell = useSignal([0, 0]);
  const sizes = [values.length, values[0]?.length ?? 0];
  const [height, width] = sizes as [number, number];
  const inside = (place: number[]): [number, number] =>
    place.map((at, i) => Math.max(0, Math.min(sizes[i]! - 1, Math.floor(at)))) as [number, number];
  const [row, column] = inside(cell.value);
  const look = (place: [number, number]): void => {
    cell.value = place;
    if (element) looked.value = element(place[0] * width + place[1]);
  };
  useEffect(() => paint(canvas.current, values), [values, theme.value]);
  if (!width) return <p class="hint">{say("trace.noElements")}</p>;
  const number = values[row]![column]!;
  const place = [...window.at, window.rows[0] + row, window.columns[0] + column].join(", ");
  const point = (event: PointerEvent): void => {
    const { left, top, width: wide, height: high } = canvas.current!.getBoundingClientRect();
    look(
      inside([
        ((event.clientY - top) / high) * height,
        ((event.clientX - left) / wide) * width,
      ]),
    );
  };
  const move = (event: KeyboardEvent): void => {
    const by = arrows[event.key];
    if (!by) return;
    event.preventDefault();
    look(inside([row + by[0], column + by[1]]));
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
        onPointerLeave={() => (looked.value = null)}
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
function paint(canvas: HTMLCanvasElement | null, values: number[][]): void {
  const context = canvas?.getContext("2d");
  if (!context) return;
  const { color, borderBlockEndColor, outlineColor } = getComputedStyle(canvas!);
  const most = Math.max(0, ...values.flat().filter(Number.isFinite).map(Math.abs)) || 1;
  context.clearRect(0, 0, canvas!.width, canvas!.height);
  values.forEach((row, y) =>
    row.forEach((number, x) => {
      const finite = Number.isFinite(number);
      context.globalAlpha = finite ? Math.sqrt(Math.abs(number) / most) : 1;
      context.fillStyle = !finite ? outlineColor : number < 0 ? borderBlockEndColor : color;
      context.fillRect(x, y, 1, 1);
    }),
  );
}
