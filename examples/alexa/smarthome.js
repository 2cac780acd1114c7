const { call } = require('./skill');

exports.main = async ({ words }) => {
  const device = ['light', 'door'].find((name) => words.includes(name));
  if (!device) return { speech: 'There is no such device.' };
  const state = await call(device, { on: words.includes('on') || words.includes('open') });
  return { speech: `The ${device} is ${state.state}.` };
};
