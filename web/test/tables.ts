// Fills the engine's tables before anything else is run: bundle.mjs puts it into every bundle.

import { tables } from "../src/engine/tables";
import written from "../src/generated/tables.json";

Object.assign(tables, written);
