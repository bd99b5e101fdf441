// Opening a trace: a file by button or by dropping it anywhere, or a live session of the server.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { hasServer } from "../../state/server";
import { place } from "../../state/studio";
import { shownTitle, traceStage } from "../../state/trace";
import { listSessions, openFile, opening, openSession, sessions } from "../../state/traces";
import { say } from "../../state/words";
import { Link } from "../parts";
import { Failure } from "./pieces";

export function OpenTrace() {
  const dialog = useRef<HTMLDialogElement>(null);
  const failure = useSignal("");
  const over = useSignal(false);
  const close = (): void => dialog.current?.close();
  const read = (files: FileList | null | undefined): void => {
    const file = files?.[0];
    if (!file) return;
    close();
    void openFile(file);
  };
  const begin = (): void => {
    dialog.current!.showModal();
    listSessions().then(
      () => (failure.value = ""),
      (error: Error) => (failure.value = error.message),
    );
  };
  useEffect(() => {
    const names = ["dragover", "dragleave", "drop"] as const;
    const follow = (event: DragEvent): void => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      over.value = event.type === "dragover";
      if (event.type === "drop") read(event.dataTransfer.files);
    };
    for (const name of names) document.addEventListener(name, follow);
    return () => {
      for (const name of names) document.removeEventListener(name, follow);
    };
  }, []);
  const left = place.value.kind !== "trace" && traceStage.document.value;
  return (
    <>
      {left && (
        <button type="button" onClick={() => (place.value = { kind: "trace" })} data-to-trace>
          ‹ {say("trace.back", { title: shownTitle(left) })}
        </button>
      )}
      <button type="button" onClick={begin} aria-busy={opening.value} data-open-trace>
        {say("trace.open")}
      </button>
      {over.value && (
        <div class="dropzone" aria-hidden="true">
          {say("trace.drop")}
        </div>
      )}
      <dialog ref={dialog} class="help opener" aria-labelledby="open-title">
        <h2 id="open-title">{say("trace.open")}</h2>
        <p>{say("trace.openAbout")}</p>
        <p>
          <label class="file">
            <span>{say("trace.file")}</span>
            <input
              type="file"
              data-trace-file
              onChange={(event) => {
                read(event.currentTarget.files);
                event.currentTarget.value = "";
              }}
            />
          </label>
        </p>
        <h3>{say("trace.sessions")}</h3>
        {!hasServer && <p class="hint">{say("trace.sessionsNeedPython")}</p>}
        <Failure text={failure.value} />
        {hasServer && !failure.value && sessions.value.length === 0 && (
          <p class="hint">{say("trace.noSessions")}</p>
        )}
        <ul class="picks">
          {sessions.value.map(({ id, title, nodes }) => (
            <li key={id}>
              <Link
                data-session={id}
                onClick={() => {
                  close();
                  void openSession(id);
                }}
              >
                <span translate={false}>{title || id}</span> {say("trace.nodes", { count: nodes })}
              </Link>
            </li>
          ))}
        </ul>
        <button type="button" class="main" onClick={close}>
          {say("keys.close")}
        </button>
      </dialog>
    </>
  );
}
