// Fills the engine's tables from the page's data block; main.tsx imports it before everything else.

import { tables } from "../engine/tables";
import { dataBlock } from "./boot";

Object.assign(tables, dataBlock("tables"));
