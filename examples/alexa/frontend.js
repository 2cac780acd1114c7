const { call } = require('./skill');

exports.main = async ({ sentence }) => {
  if (!sentence) return { speech: 'I did not hear anything.' };
  return call('interact', { words: sentence.toLowerCase().split(/\s+/) });
};
