// Tells a learning platform how far a learner is, by SCORM 1.2 or 2004. A package of the site has this
// script before the page's own: `gradwalk site --scorm`. Without a platform it does nothing.

interface Api {
  [call: string]: (...given: string[]) => string | boolean;
}

type Done = Record<string, string[]>;

interface Dialect {
  api: string;
  call: (name: string) => string; // Initialize, as this version calls it
  suspend: number; // how many characters it keeps
  learner: string;
  status: string;
  numbers: (share: number) => Record<string, string>;
}

const dialects: Record<string, Dialect> = {
  "1.2": {
    api: "API",
    call: (name) => `LMS${name === "Terminate" ? "Finish" : name}`,
    suspend: 4096,
    learner: "cmi.core.student_name",
    status: "cmi.core.lesson_status",
    numbers: (share) => ({
      "cmi.core.score.min": "0",
      "cmi.core.score.max": "100",
      "cmi.core.score.raw": String(Math.round(100 * share)),
      "cmi.core.lesson_status": share === 1 ? "completed" : "incomplete",
      "cmi.core.exit": share === 1 ? "" : "suspend",
    }),
  },
  "2004": {
    api: "API_1484_11",
    call: (name) => name,
    suspend: 64000,
    learner: "cmi.learner_name",
    status: "cmi.completion_status",
    numbers: (share) => ({
      "cmi.score.min": "0",
      "cmi.score.max": "100",
      "cmi.score.raw": String(Math.round(100 * share)),
      "cmi.score.scaled": String(Math.round(1e4 * share) / 1e4),
      "cmi.progress_measure": String(Math.round(1e4 * share) / 1e4),
      "cmi.completion_status": share === 1 ? "completed" : "incomplete",
      "cmi.success_status": share === 1 ? "passed" : "unknown",
      "cmi.exit": share === 1 ? "normal" : "suspend",
    }),
  },
};
const kept = "gradwalk.lessons"; // as progress.ts keeps it

/** The platform's object, in a window above this one or above the one that opened it. */
function find(name: string): Api | null {
  for (const first of [window, window.opener as Window | null]) {
    let place: Window | null = first;
    for (let i = 0; place && i < 20; i++) {
      try {
        const found = (place as unknown as Record<string, Api | undefined>)[name];
        if (found) return found;
        place = place.parent === place ? null : place.parent;
      } catch {
        break; // another site's window
      }
    }
  }
  return null;
}

function start(dialect: Dialect): void {
  const api = find(dialect.api);
  if (!api) return;
  const call = (name: string, ...given: string[]): string => {
    try {
      return String(api[dialect.call(name)]!(...given));
    } catch {
      return "";
    }
  };
  const set = (values: Record<string, string>): void => {
    for (const [name, value] of Object.entries(values)) call("SetValue", name, value);
    call("Commit", "");
  };
  if (call("Initialize", "") === "false") return;

  // What this learner did before, on whatever machine, and not what another left in this browser.
  const before = call("GetValue", "cmi.suspend_data");
  const names = call("GetValue", dialect.learner).split(",").reverse();
  try {
    if (readDone(before)) localStorage.setItem(kept, before);
    else localStorage.removeItem(kept);
    const name = names.map((part) => part.trim()).join(" ");
    if (name) localStorage.setItem("gradwalk.learner", JSON.stringify(name));
  } catch {
    // The browser keeps nothing for a frame: the platform still hears what is done from here on.
  }
  const status = call("GetValue", dialect.status);
  if (["", "not attempted", "unknown"].includes(status)) set({ [dialect.status]: "incomplete" });

  const tasks = fetch("lessons/index.json")
    .then((answer) => answer.json())
    .then((index: { languages: { en: { lessons: { id: string; tasks: number }[] } } }) =>
      index.languages.en.lessons.filter((lesson) => lesson.tasks > 0),
    );
  let ended = false;
  addEventListener("gradwalk:progress", (event) => {
    const done = (event as CustomEvent<Done>).detail;
    void tasks.then((lessons) => {
      if (ended) return;
      const all = lessons.reduce((sum, lesson) => sum + lesson.tasks, 0);
      const did = lessons.reduce(
        (sum, { id, tasks }) => sum + Math.min(done[id]?.length ?? 0, tasks),
        0,
      );
      const share = all ? did / all : 0;
      set({ "cmi.suspend_data": shortened(done, dialect.suspend), ...dialect.numbers(share) });
    });
  });
  const end = (): void => {
    if (ended) return;
    ended = true;
    call("Commit", "");
    call("Terminate", "");
  };
  addEventListener("pagehide", end);
  addEventListener("beforeunload", end);
}

function readDone(text: string): Done | null {
  try {
    const found = JSON.parse(text) as Done;
    return found && Object.values(found).every(Array.isArray) ? found : null;
  } catch {
    return null;
  }
}

/** As much as the platform keeps, lesson by lesson. */
function shortened(done: Done, most: number): string {
  const fitting: Done = {};
  for (const [lesson, ids] of Object.entries(done)) {
    const more = { ...fitting, [lesson]: ids };
    if (JSON.stringify(more).length <= most) fitting[lesson] = ids;
  }
  return JSON.stringify(fitting);
}

const version = (document.currentScript as HTMLScriptElement | null)?.dataset["scorm"] ?? "";
const spoken = dialects[version];
if (spoken) start(spoken);
