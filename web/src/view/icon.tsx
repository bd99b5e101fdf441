// The signs on buttons, drawn: they look the same on every machine.

const paths = {
  first: "M4 3v10M13 3L6 8l7 5z",
  back: "M11 3L5 8l6 5z",
  play: "M4.5 2.5l9 5.5l-9 5.5z",
  pause: "M5 3v10M11 3v10",
  next: "M5 3l6 5l-6 5z",
  last: "M3 3l7 5l-7 5zM12 3v10",
  close: "M4 4l8 8M12 4l-8 8",
  menu: "M2 4h12M2 8h12M2 12h12",
};

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
