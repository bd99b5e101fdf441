// Sharing what is shown: a link; from a page on this computer also a file, or the end of a link.

import { useSignal } from "@preact/signals";

import { currentAddress, isLocal } from "../state/address";
import { announce } from "../state/announce";
import { saveCopy } from "../state/export";
import { notify, place } from "../state/studio";
import { say } from "../state/words";

/** Copies the link; where the browser does not let us, shows it to be copied. */
export function Share() {
  const shown = useSignal("");
  const copied = useSignal(false);
  const asking = useSignal(false);
  const copy = async (text: string): Promise<void> => {
    asking.value = false;
    try {
      await navigator.clipboard.writeText(text);
      announce(say("share.copied"));
      shown.value = "";
      copied.value = true;
      setTimeout(() => (copied.value = false), 2500);
    } catch {
      shown.value = text;
    }
  };
  const share = (): void => {
    const { address, note } = currentAddress();
    if (note) notify(note);
    if (isLocal() && !note) asking.value = true;
    else void copy(address);
  };
  return (
    <>
      <button type="button" onClick={share} data-send>
        {say(copied.value ? "share.copied" : "page.share")}
      </button>
      {shown.value && (
        <input
          class="address"
          readOnly
          value={shown.value}
          aria-label={say("share.address")}
          ref={(input) => input?.select()}
          onBlur={() => (shown.value = "")}
        />
      )}
      {asking.value && <Ways copy={copy} close={() => (asking.value = false)} />}
    </>
  );
}

/** A page on this computer: its address helps nobody else, a file does. */
function Ways({ copy, close }: { copy: (text: string) => void; close: () => void }) {
  const { address } = currentAddress();
  const end = new URL(address).hash;
  const save = (): void => {
    close();
    saveCopy().catch(() => notify({ key: "page.noExport" }));
  };
  return (
    <dialog
      ref={(dialog) => {
        if (dialog && !dialog.open) dialog.showModal();
      }}
      class="help share"
      aria-labelledby="share-title"
      onClose={close}
    >
      <h2 id="share-title">{say("share.title")}</h2>
      <p>{say("share.about")}</p>
      {place.value.kind !== "lesson" && (
        <button type="button" class="main" onClick={save}>
          {say("share.file")}
        </button>
      )}
      <p>{say("share.end")}</p>
      <div class="row">
        <code translate={false}>{end}</code>
        <button type="button" onClick={() => copy(end)} data-copy="end">
          {say("share.copyEnd")}
        </button>
      </div>
      <div class="row ends">
        <button type="button" onClick={() => copy(address)} data-copy="all">
          {say("share.copyLocal")}
        </button>
        <button type="button" onClick={close}>
          {say("share.close")}
        </button>
      </div>
    </dialog>
  );
}
