// What only Python can answer about an operation: why its gradient is what it is, one element as a
// graph of numbers, a composite op taken apart.

import { useSignal } from "@preact/signals";

import { shortNumber } from "../../engine/numbers";
import { hasServer } from "../../state/server";
import { traceStage as stage } from "../../state/trace";
import { askAbout, openAnswer } from "../../state/traces";
import { say } from "../../state/words";
import { shapeText } from "../../trace/description";
import { Failure, ItemLink, Picks } from "./pieces";

/** The parts of `why(...).to_dict()` that are shown. */
interface Why {
  name: string;
  norm: number | string;
  edges: { consumer: number; name: string; norm: number | string; cosine: number | null }[];
  terms: { name: string; norm: number | string }[];
  path_count: number | string | null;
  cancellation: number | null;
  notes: string[];
}

const mostListed = 8;

export function AskPython({ node, output }: { node: number; output: number }) {
  const shape = stage.node(node).metas[output]!.shape;
  const element = useSignal(shape.map(() => 0).join(", "));
  const answer = useSignal<Why | null>(null);
  const failure = useSignal("");
  if (!hasServer) {
    return (
      <>
        <h4>{say("trace.why")}</h4>
        <p class="hint">{say("trace.needsPython")}</p>
      </>
    );
  }
  const place = (): number[] => {
    const found = element.value.match(/[^\s,]+/g)?.map(Number) ?? [];
    const there = found.every((i, d) => Number.isInteger(i) && i >= 0 && i < shape[d]!);
    if (!there || found.length !== shape.length)
      throw new Error(say("trace.noElement", { element: element.value, shape: shapeText(shape) }));
    return found;
  };
  const tell = (asked: Promise<void>): void => {
    failure.value = "";
    asked.catch((error: Error) => {
      failure.value = error.message;
    });
  };
  const why = async (whole: boolean): Promise<void> => {
    const question = { node, output, ...(!whole && { element: place() }) };
    answer.value = await askAbout<Why>("why", question);
  };
  const opened = async (question: "element" | "open"): Promise<void> => {
    const body = question === "open" ? { node } : { node, output, element: place() };
    const found = await askAbout<{ name: string; trace: unknown }>(question, body);
    openAnswer(found.name, found.trace);
  };
  return (
    <section class="ask">
      <h4>{say("trace.why")}</h4>
      <div class="row">
        <button type="button" onClick={() => tell(why(true))} data-why>
          {say("trace.whyAll")}
        </button>
        {stage.node(node).op && (
          <button type="button" onClick={() => tell(opened("open"))}>
            {say("trace.takeApart")}
          </button>
        )}
      </div>
      {shape.length > 0 && (
        <div class="row">
          <label>
            <span>{say("trace.element")}</span>{" "}
            <input
              value={element.value}
              onInput={(event) => (element.value = event.currentTarget.value)}
              size={9}
            />
          </label>
          <button type="button" onClick={() => tell(why(false))} data-why-element>
            {say("trace.whyElement")}
          </button>
          <button type="button" onClick={() => tell(opened("element"))} data-element>
            {say("trace.asNumbers")}
          </button>
        </div>
      )}
      <Failure text={failure.value} />
      {answer.value && <WhyAnswer why={answer.value} />}
    </section>
  );
}

function WhyAnswer({ why }: { why: Why }) {
  const total = Number(why.norm);
  return (
    <div class="why" data-why-answer>
      <p>{say("trace.whyNorm", { name: why.name, norm: shortNumber(total) })}</p>
      <Picks of={why.edges} most={mostListed}>
        {({ consumer, name, norm }) => (
          <>
            <ItemLink item={{ node: consumer }} text={name} />{" "}
            <span data-contribution={consumer}>{shortNumber(Number(norm))}</span>
          </>
        )}
      </Picks>
      {why.terms.length > 0 && <h4>{say("trace.terms")}</h4>}
      <Picks of={why.terms} most={mostListed}>
        {({ name, norm }) => (
          <>
            <span translate={false}>{name}</span> {shortNumber(Number(norm))}
          </>
        )}
      </Picks>
      {why.path_count !== null && <p>{say("trace.paths", { paths: String(why.path_count) })}</p>}
      {why.cancellation !== null && (
        <p>{say("trace.cancellation", { ratio: shortNumber(Number(why.cancellation)) })}</p>
      )}
      {why.notes.map((note, i) => (
        <p key={i} class="hint" translate={false}>
          {note}
        </p>
      ))}
    </div>
  );
}
