// Two factors, transposed or not, until their product has the shape of a gradient, and is it.

import { useSignal } from "@preact/signals";

import { shortNumber } from "../../../../engine/numbers";
import { announce } from "../../../../state/announce";
import { say } from "../../../../state/words";
import type { CoreProps } from "../registry";

type Matrix = number[][];

const shape = (of: Matrix): string => `${of.length}×${of[0]!.length}`;
const turned = (of: Matrix): Matrix => of[0]!.map((_, j) => of.map((row) => row[j]!));
const product = (left: Matrix, right: Matrix): Matrix =>
  left.map((row) => right[0]!.map((_, j) => row.reduce((sum, a, k) => sum + a * right[k]![j]!, 0)));

/** Y = X · W, and what has arrived at Y. */
const given: Record<string, Matrix> = {
  X: [
    [1, 2, 3],
    [4, 5, 6],
  ],
  W: [
    [1, -1, 0, 2],
    [2, 0, 1, 1],
    [0, 3, -1, 1],
  ],
  dY: [
    [1, 0, 2, -1],
    [0, 1, -1, 1],
  ],
};
const factors: Record<string, Matrix> = Object.fromEntries(
  Object.entries(given).flatMap(([name, matrix]) => [
    [name, matrix],
    [`${name}ᵀ`, turned(matrix)],
  ]),
);

export function Fit({ block, done, finish }: CoreProps) {
  const wanted = block.data.of!;
  const chosen = [useSignal("dY"), useSignal("X")];
  const [left, right] = chosen.map(({ value }) => factors[value]!) as [Matrix, Matrix];
  const fits = left[0]!.length === right.length;
  const found = fits ? product(left, right) : null;
  const target =
    wanted === "W" ? product(factors.Xᵀ!, factors.dY!) : product(factors.dY!, factors.Wᵀ!);
  const said = useSignal("");
  const check = (): void => {
    if (JSON.stringify(found) === JSON.stringify(target)) {
      said.value = "";
      return finish();
    }
    const values = {
      one: shape(left),
      other: shape(right),
      inner: left[0]!.length,
      rows: right.length,
      found: found ? shape(found) : "",
      name: wanted,
      wanted: shape(target),
    };
    said.value = say(!found ? "core.fit.inner" : "core.fit.shape", values);
    announce(said.value);
  };
  return (
    <div class="readings">
      <div class="factors" translate={false}>
        {Object.entries(given).map(([name, matrix]) => (
          <Figures key={name} name={name} matrix={matrix} />
        ))}
      </div>
      <p class="factors">
        {chosen.map((factor, i) => (
          <label key={i}>
            <span class="hidden">{say(i ? "core.fit.right" : "core.fit.left")}</span>
            <select
              value={factor.value}
              onChange={(event) => (factor.value = event.currentTarget.value)}
              translate={false}
              data-factor={i}
            >
              {Object.entries(factors).map(([name, matrix]) => (
                <option key={name} value={name}>
                  {name} ({shape(matrix)})
                </option>
              ))}
            </select>
            {!i && <span aria-hidden="true"> · </span>}
          </label>
        ))}
        <button type="button" onClick={check} data-check-product>
          {say("core.fit.multiply")}
        </button>
      </p>
      {said.value && !done && (
        <p class="feedback wrong" data-feedback="core">
          {said.value}
        </p>
      )}
      {found && done && (
        <div class="factors" translate={false}>
          <Figures name={chosen[0]!.value} matrix={left} />·
          <Figures name={chosen[1]!.value} matrix={right} />=
          <Figures name={`d${wanted}`} matrix={found} />
        </div>
      )}
    </div>
  );
}

function Figures({ name, matrix }: { name: string; matrix: Matrix }) {
  return (
    <table class="small-matrix">
      <caption>
        {name} {shape(matrix)}
      </caption>
      <tbody>
        {matrix.map((row, i) => (
          <tr key={i}>
            {row.map((number, j) => (
              <td key={j}>{shortNumber(number)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
